"""Write docs/settings.md: every key of every settings file, as the dataclasses have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moses_bridge.base.config_text import Setting, settings_of, toml_value
from moses_bridge.builtin.build import BuildConfig
from moses_bridge.corpus.parallel_corpus import CorpusConfig
from moses_bridge.corpus.selection import SelectConfig
from moses_bridge.decoding.decoder import DecoderConfig
from moses_bridge.tables.prune import PruneConfig
from rescorer.contract.architectures import ARCHITECTURES, load
from rescorer.runs.expected_bleu.task import ExpectedBleuConfig
from tuning.compare.scan.weight_scan import ScanConfig
from tuning.compare.systems import CompareConfig
from tuning.loop.rerank_run import RerankConfig
from tuning.loop.tuning_loop import TuningConfig
from tuning.optimisers.contract import OptimizerConfig

PAGE = Path(__file__).with_name("settings.md")
INTRODUCTION = """\
# Settings

This page is made by `make settings` from the dataclasses that hold the settings; a test compares the two.

Each command below takes `--config FILE`: TOML with these keys, each of which may be left out. An unknown key is
an error. A key in a table, like `loop.max_minutes`, is written as `max_minutes` below `[loop]`, or as
`loop = { max_minutes = 2.0 }`.

With `--print-config` a command prints the settings that it would use, and ends. A few keys are options of the
command line too; those go before the file, and `--help` names them.

`make table1` reads its settings from one file in `tuning/experiments/`, in which each command has one
section or two, and the systems that are compared ([the pipeline](pipeline.md#make-table1)).
"""
EXPERIMENT_SECTIONS = {
    "encdec": ("encdec", "encdec_counted"),
    "cslm": ("cslm",),
    "nnjm": ("nnjm",),
    "rnn_lm": ("rnn_lm",),
    "rnnsearch": ("rnnsearch",),
    "word_pairs": ("pairs",),
}
HEADER = "| key | meaning | type | default | limits |\n|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Section:
    """What one command can be told by a settings file.

    Attributes:
        command: the command.
        kind: its dataclass.
        names: its sections in an experiment file.
        data: what it is trained on, "" for a command that trains nothing.
    """

    command: str
    kind: type[Any]
    names: tuple[str, ...] = ()
    data: str = ""

    @property
    def notes(self) -> list[str]:
        """Sentences between the heading and the table."""
        names = " and ".join(f"`[{name}]`" for name in self.names)
        data = [f"Trained on {self.data}."] if self.data else []
        return data + ([f"In an experiment file: {names}."] if names else [])


def _of_architecture(name: str) -> Section:
    architecture = load(name)
    return Section(
        f"rescorer train --arch {name}",
        architecture.settings,
        EXPERIMENT_SECTIONS.get(name, ()),
        architecture.data,
    )


SECTIONS = (
    Section("moses-bridge corpus", CorpusConfig, ("corpus",)),
    Section("moses-bridge select", SelectConfig),
    Section("moses-bridge build", BuildConfig, ("build",)),
    Section("moses-bridge prune", PruneConfig),
    Section("moses-bridge decode", DecoderConfig, ("lists",)),
    *map(_of_architecture, ARCHITECTURES),
    Section("rescorer expected-bleu", ExpectedBleuConfig, ("home-pairs", "home-rnn")),
    Section("tuning tune", TuningConfig, ("start", "tune")),
    Section("tuning rerank", RerankConfig, ("rerank",)),
    Section("tuning optimize", OptimizerConfig),
    Section("tuning compare", CompareConfig, ("compare",)),
    Section("tuning scan", ScanConfig),
)


def page() -> str:
    """The text of docs/settings.md."""
    return "\n".join([INTRODUCTION, *map(_section_text, SECTIONS)])


def _section_text(section: Section) -> str:
    notes = f"{' '.join(section.notes)}\n\n" if section.notes else ""
    return f"## `{section.command}`\n\n{notes}{HEADER}" + "".join(_rows(section.kind()))


def _rows(config: Any) -> Iterator[str]:
    for setting in settings_of(config):
        cells = (
            f"`{setting.name}`",
            _escaped(setting.meaning),
            setting.kind,
            _default(setting),
            _escaped(setting.limits),
        )
        yield f"| {' | '.join(cells)} |\n"


def _default(setting: Setting) -> str:
    if setting.is_table:
        return ""
    return "not set" if setting.value is None else f"`{toml_value(setting.value)}`"


def _escaped(text: str) -> str:
    """Text in which no bar ends a cell and, outside of code, no word is taken for HTML."""
    parts = text.replace("|", r"\|").split("`")
    parts[::2] = [part.replace("<", r"\<") for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
