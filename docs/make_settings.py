"""Write docs/settings.md: every key of every settings file, as the dataclasses have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from moses_bridge.base.config_text import Setting, settings_of, toml_value
from moses_bridge.builtin.build import BuildConfig
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.corpus.selection import SelectConfig
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.tables.prune import PruneConfig
from rescorer.contract.architectures import ARCHITECTURES, load
from rescorer.runs.expected_bleu.run import ExpectedBleuConfig
from rescorer.training.loop_config import LoopConfig
from tuning.compare.scan import ScanConfig
from tuning.compare.systems import CompareConfig
from tuning.loop.settings import RerankConfig, TuningConfig
from tuning.optimisers.contract import OptimizerConfig

PAGE = Path(__file__).with_name("settings.md")
INTRODUCTION = """\
# Settings

This page is made by `make settings` from the dataclasses that hold the settings; a test compares the two.

Each command below takes `--config FILE`: TOML with these keys, each of which may be left out. An unknown key is
an error. A key in a table, like `loop.max_minutes`, is written as `max_minutes` below `[loop]`, or as
`loop = { max_minutes = 2.0 }`. What several commands share is listed once, with the defaults that differ.

With `--print-config` a command prints the settings that it would use, and ends. A few keys are options of the
command line too; those go before the file, and `--help` names them.

`make table1` reads its settings from one file in `tuning/experiments/`, in which each command has one
section or two, and the systems that are compared ([the pipeline](pipeline.md#make-table1)).
"""
EXPERIMENT_SECTIONS = {
    "encdec": ("encdec",),
    "cslm": ("cslm",),
    "nnjm": ("nnjm",),
    "rnn_lm": ("rnn_lm",),
    "rnnsearch": ("rnnsearch", "rnnsearch-back"),
    "word_pairs": ("pairs",),
}
HEADER = "| key | meaning | type | default | limits |\n|---|---|---|---|---|\n"
FAMILY_HEADER = "| key | of | meaning | type | default | limits |\n|---|---|---|---|---|---|\n"


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


LOOP = "Training of every network: `loop`"
# Tables of settings that are listed once, by their dataclass: below this heading.
TABLES: dict[type[Any], str] = {
    LoopConfig: LOOP,
    DecoderConfig: "`moses-bridge decode`",
    OptimizerConfig: "`tuning optimize`",
}
# Networks by what they are trained on: a key that several of them have is listed once.
FAMILIES = {
    "`rescorer train`: networks of phrase pairs": ("encdec", "cstm", "bae", "cptm", "word_pairs"),
    "`rescorer train`: networks of target text": ("cslm", "nnjm", "rnn_lm"),
    "`rescorer train`: networks of sentence pairs": ("rnnsearch", "seq2seq"),
}


def page() -> str:
    """The text of docs/settings.md."""
    networks = [place for place, section in enumerate(SECTIONS) if _architecture(section)]
    families = [_family_text(title, names) for title, names in FAMILIES.items()]
    loop = _section(LOOP, "", HEADER, map(_cells, _settings(LoopConfig())))
    before, after = SECTIONS[: networks[0]], SECTIONS[networks[-1] + 1 :]
    texts = [*map(_section_text, before), loop, *families, *map(_section_text, after)]
    return "\n".join([INTRODUCTION, *texts])


def _architecture(section: Section) -> str:
    """The architecture of a section, "" for another command."""
    return section.command.partition("--arch ")[2]


def _section_text(section: Section) -> str:
    rows = map(_cells, _settings(section.kind()))
    return _section(f"`{section.command}`", " ".join(section.notes), HEADER, rows)


def _family_text(title: str, names: Sequence[str]) -> str:
    """The keys of several architectures: each with those that have it, and their defaults."""
    sections = {name: next(s for s in SECTIONS if _architecture(s) == name) for name in names}
    notes = "".join(f"- `--arch {name}`: {' '.join(sections[name].notes)}\n" for name in names)
    found: dict[str, dict[Setting, dict[str, str]]] = {}
    for name, section in sections.items():
        for setting in _settings(section.kind()):
            alike = found.setdefault(setting.name, {})
            alike.setdefault(replace(setting, value=None), {})[name] = _default(setting)
    rows = [
        [cells[0], "all" if len(defaults) == len(names) else ", ".join(defaults), *cells[1:]]
        for alike in found.values()
        for setting, defaults in alike.items()
        for cells in [_cells(setting, _defaults(defaults))]
    ]
    return _section(title, notes.rstrip("\n"), FAMILY_HEADER, rows)


def _defaults(defaults: Mapping[str, str]) -> str:
    """The default of the first architecture, and of those with another one."""
    first = next(iter(defaults.values()))
    others = [f"{name}: {value}" for name, value in defaults.items() if value != first]
    return "; ".join([first, *others])


def _settings(config: Any) -> Iterator[Setting]:
    """The settings of a dataclass; a table listed below another heading is one row that links there."""
    elsewhere = {
        field.name: getattr(config, field.name)
        for field in fields(config)
        if type(getattr(config, field.name)) in TABLES
    }
    for setting in settings_of(config):
        table, _, key = setting.name.partition(".")
        if table not in elsewhere:
            yield setting
        elif not key:
            link = _link_to_table(elsewhere[table])
            yield replace(setting, meaning=f"{setting.meaning} {link}")


def _link_to_table(table: Any) -> str:
    """Where the keys of a table are listed, and which defaults are not those there."""
    title = TABLES[type(table)]
    pairs = zip(settings_of(type(table)()), settings_of(table), strict=True)
    changed = [
        f"`{own.name} = {toml_value(own.value)}`"
        for there, own in pairs
        if own.value != there.value
    ]
    defaults = f", with {' and '.join(changed)}" if changed else ""
    return f"Its keys: [{title}]({_anchor(title)}){defaults}."


def _anchor(title: str) -> str:
    """The link to a heading of the page."""
    words = re.sub(r"[^\w\s-]", "", title).strip().lower()
    return "#" + re.sub(r"[-\s]+", "-", words)


def _section(title: str, note: str, header: str, rows: Iterable[Sequence[str]]) -> str:
    notes = f"{note}\n\n" if note else ""
    return f"## {title}\n\n{notes}{header}" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cells(setting: Setting, default: str | None = None) -> list[str]:
    return [
        f"`{setting.name}`",
        _escaped(setting.meaning),
        setting.kind,
        _default(setting) if default is None else default,
        _escaped(setting.limits),
    ]


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
