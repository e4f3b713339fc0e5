"""docs/settings.md: it is what the dataclasses say, on every machine, and leaves no command out."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import moses_bridge.cli
import rescorer.cli
import tuning.cli
from moses_bridge.base.config import from_mapping, load_toml
from moses_bridge.base.config_text import settings_of, toml_value
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.experiment import load_experiment
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.decoding.interface import DecoderConfig
from rescorer.contract.architectures import ARCHITECTURES
from rescorer.runs.expected_bleu.run import ExpectedBleuConfig
from rescorer.scorers.encdec import EncDecTrainingConfig
from rescorer.scorers.nnjm import NnjmTrainingConfig
from rescorer.scorers.word_pairs import WordPairsTrainingConfig
from rescorer.scorers.zoo.cptm import CptmTrainingConfig

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCRIPT = DOCS / "make_settings.py"
EXPERIMENTS = [
    DOCS.parent / f"tuning/experiments/{scale}.toml" for scale in ("tiny", "small", "full")
]
PLANNED = {
    "networks", "columns", "features", "starts", "systems", "tables", "seeds", "folds", "page",
}  # fmt: skip
PROGRAMS = {
    "moses-bridge": moses_bridge.cli.main,
    "rescorer": rescorer.cli.main,
    "tuning": tuning.cli.main,
}
# A machine with one processor of an unknown kind.
ELSEWHERE = """\
import os, platform, runpy, sys
os.cpu_count = lambda: 1
os.sched_getaffinity = lambda process: {0}
platform.machine = platform.processor = lambda: "unknown"
sys.stdout.write(runpy.run_path(sys.argv[1])["page"]())
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_page_is_up_to_date(script: dict[str, Any]) -> None:
    assert script["page"]() == (DOCS / "settings.md").read_text(), "run `make settings`"


@pytest.mark.slow
def test_the_page_is_the_same_on_another_machine() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, SCRIPT], capture_output=True, env=environment, check=True
    )
    assert result.stdout == (DOCS / "settings.md").read_bytes()


def test_no_default_is_computed(script: dict[str, Any]) -> None:
    """A factory is needed for a table, and for another value only if that is computed."""
    for section in script["SECTIONS"]:
        for name, value in _made_by_factories(section.kind()):
            assert dataclasses.is_dataclass(value), f"{section.command}: {name}"


def _made_by_factories(config: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.default_factory is not dataclasses.MISSING:
            yield field.name, value
        if dataclasses.is_dataclass(value):
            yield from _made_by_factories(value)


def _with_config() -> Iterator[tuple[str, click.Command]]:
    for program, group in PROGRAMS.items():
        for verb, command in group.all_commands().items():
            if any(parameter.name == "print_config" for parameter in command.params):
                yield f"{program} {verb}", command


def test_every_command_with_settings_has_its_section(script: dict[str, Any]) -> None:
    commands = {section.command.split(" --")[0] for section in script["SECTIONS"]}
    assert commands == {name for name, _ in _with_config()}


def test_every_architecture_has_its_section(script: dict[str, Any]) -> None:
    commands = {section.command for section in script["SECTIONS"]}
    assert commands >= {f"rescorer train --arch {name}" for name in ARCHITECTURES}


LINK = re.compile(r"Its keys: \[([^\]]+)\]\(#[\w-]+\)(?:, with (.+))?\.$")


def _page_rows(text: str) -> dict[str, list[list[str]]]:
    """The rows of the tables of a page, each cell by cell, by the heading above."""
    rows: dict[str, list[list[str]]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            rows.setdefault(heading, []).append(cells)
    return rows


def _shown_default(rows: dict[str, list[list[str]]], heading: str, arch: str, key: str) -> str:
    """The default of a key as a reader finds it: in its row, or where the row of its table leads."""
    for cells in rows[heading]:
        if len(cells) == 6:
            name, of, meaning, _, default, _ = cells
            if arch not in of.split(", ") and of != "all":
                continue
            exceptions = dict(part.split(": ") for part in default.split("; ")[1:])
            default = exceptions.get(arch, default.split("; ")[0])
        else:
            name, meaning, _, default, _ = cells
        table, _, inner = key.partition(".")
        if name == f"`{key}`":
            return default
        if name == f"`{table}`" and (link := LINK.search(meaning)):
            own = re.search(rf"`{re.escape(inner)} = (\S+)`", link[2] or "")
            return f"`{own[1]}`" if own else _shown_default(rows, link[1], "", inner)
    raise AssertionError(f"{heading}: {arch} {key}")


def test_every_default_is_found_on_the_page(script: dict[str, Any]) -> None:
    rows = _page_rows((DOCS / "settings.md").read_text())
    n_found = 0
    for section in script["SECTIONS"]:
        _, _, arch = section.command.partition("--arch ")
        heading = f"`{section.command}`"
        if arch:
            (heading,) = (title for title, names in script["FAMILIES"].items() if arch in names)
        for setting in settings_of(section.kind()):
            if not setting.is_table:
                expected = "not set" if setting.value is None else f"`{toml_value(setting.value)}`"
                assert _shown_default(rows, heading, arch, setting.name) == expected
                n_found += 1
    assert n_found > 300
    with pytest.raises(AssertionError, match="encdec nowhere"):
        _shown_default(rows, next(iter(script["FAMILIES"])), "encdec", "nowhere")


def test_each_command_prints_its_settings_as_they_are_read(script: dict[str, Any]) -> None:
    for section in script["SECTIONS"]:
        program, *arguments = section.command.split()
        result = CliRunner().invoke(PROGRAMS[program], [*arguments, "--print-config"])
        assert (result.exit_code, result.stderr) == (0, ""), section.command
        mapping = tomllib.loads(result.stdout)
        assert from_mapping(section.kind, mapping, section.command) == section.kind()


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda path: path.stem)
def test_each_section_of_an_experiment_is_on_the_page(
    script: dict[str, Any], experiment: Path
) -> None:
    kinds = {name: section.kind for section in script["SECTIONS"] for name in section.names}
    tables = _settings(experiment)
    assert from_mapping(kinds["tune"], tables.pop("tune-best"), "tune-best").keep == "best"
    only_full = (
        set() if experiment.stem == "full" else {"rnn_lm", "rnnsearch", "rnnsearch-back", "rerank"}
    )
    assert set(tables) == set(kinds) - only_full
    for name, table in tables.items():
        from_mapping(kinds[name], table, name)


def _settings(*experiments: Path) -> dict[str, dict[str, Any]]:
    """The sections of an experiment that are settings of commands."""
    tables = load_experiment(experiments)
    return {name: table for name, table in tables.items() if name not in PLANNED}


def test_each_section_names_the_nearest_key_in_its_tables(script: dict[str, Any]) -> None:
    n_tables = 0
    for section in script["SECTIONS"]:
        for field in dataclasses.fields(section.kind):
            table = getattr(section.kind(), field.name)
            if dataclasses.is_dataclass(table):
                n_tables += 1
                for key in dataclasses.fields(table):
                    wrong = f"{key.name}x"
                    with pytest.raises(ConfigError) as error:
                        from_mapping(section.kind, {field.name: {wrong: 1}}, "here")
                    assert str(error.value) == (
                        f"here: {field.name}: unknown key {wrong!r}; did you mean {key.name!r}?"
                    )
    assert n_tables >= 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p(a | b)", r"p(a \| b)"),
        ("</s> and <unk>", r"\</s> and \<unk>"),
        ("`a <b>` but <c>", r"`a <b>` but \<c>"),
    ],
)
def test_text_in_a_cell_stays_text(script: dict[str, Any], text: str, expected: str) -> None:
    assert script["_escaped"](text) == expected


def test_settings_of_another_domain_are_settings_that_there_are() -> None:
    folder = DOCS.parent / "tuning/experiments/domain"
    config = from_mapping(CorpusConfig, load_toml(folder / "libreoffice.toml"), "file")
    assert (config.origin, config.train_sizes[-1]) == ("libreoffice", 16000)
    kinds = {
        "encdec": EncDecTrainingConfig,
        "word_pairs": WordPairsTrainingConfig,
        "cptm": CptmTrainingConfig,
        "lists": DecoderConfig,
        "expected_bleu": ExpectedBleuConfig,
        "expected_bleu_linear": ExpectedBleuConfig,
        "nnjm-further": NnjmTrainingConfig,
    }
    own = load_toml(folder / "lists.toml").keys() - set(PLANNED)
    assert own == kinds.keys()
    tables = _settings(folder.parent / "small.toml", folder / "lists.toml")
    for name, kind in kinds.items():
        from_mapping(kind, tables[name], name)
