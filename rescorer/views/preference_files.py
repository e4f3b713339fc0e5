"""Preferences as files, Markdown or JSON by the suffix of the name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.json_files import write_json
from moses_bridge.base.textio import open_write
from moses_bridge.formats.words import readable
from rescorer.views.preferences import KINDS, Preference, Preferences, Preferred, as_json

LINE_END = "  \n"  # two blanks keep a line of its own in a paragraph
# CommonMark: a backslash before any of these makes it plain text.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&:@^$=])")


def to_markdown(result: Preferences) -> str:
    """A table for each kind of source phrase, one row a target, and how the phrases were drawn."""
    tables = [_kind_table(result, kind) for kind in KINDS]
    return "\n".join([*tables, "".join(_notes(result))])


def _kind_table(result: Preferences, kind: str) -> str:
    rows = [row for row in result.rows if row.phrase.kind == kind]
    names = list(result.rows[0].models)
    heads = [f"{markdown_cell(name.encode())} log p" for name in names]
    header = ["source phrase", "count", "table p", *heads]
    lines = [f"**Long, {kind} source phrases**", "", _line(header), _line(["---"] * len(header))]
    for row in rows:
        lines += _phrase_lines(row, names)
    return "\n".join(lines) + "\n"


def _phrase_lines(row: Preference, names: list[str]) -> list[str]:
    columns = [_cells(row.table, "{:.3g}"), *(_cells(row.models[name], "{:.2f}") for name in names)]
    first = [markdown_cell(row.phrase.source), f"{row.phrase.count:g}"]
    lines = zip(*columns, strict=True)
    return [_line([*(first if n == 0 else ["", ""]), *cells]) for n, cells in enumerate(lines)]


def _cells(best: Preferred, number: str) -> list[str]:
    pairs = zip(best.targets, best.values, strict=True)
    return [f"{markdown_cell(target)} ({number.format(value)})" for target, value in pairs]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _notes(result: Preferences) -> list[str]:
    config = result.config
    long = f"{config.min_words} words or more with {config.min_targets} targets or more"
    notes = [
        f"Drawn by seed {config.seed} from {result.n_long:,} source phrases of {long}; frequent: extracted at "
        f"least {result.least_frequent:g} times, rare: at most {result.most_rare:g} times.",
        "Behind each target: p(target | source) of the table; natural log p(target | source) of a network. "
        "All of them are targets of the table.",
    ]
    for name, share in result.agreement.items():
        n_equal = round(share * len(result.rows))
        notes.append(
            f"{markdown_cell(name.encode())} prefers the table's best target, or one of several best ones, "
            f"for {n_equal} of {len(result.rows)}."
        )
    return [note + LINE_END for note in notes]


SUFFIXES = (".md", ".json")


def check_names(paths: Sequence[Path]) -> None:
    """Refuse a name ending neither in .md nor in .json, before anything is computed.

    Raises:
        ConfigError: there is one.
    """
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise ConfigError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")


def write_preferences(result: Preferences, paths: Sequence[Path]) -> None:
    """Write the same preferences into each file.

    Raises:
        ConfigError: see `check_names`.
    """
    check_names(paths)
    for path in paths:
        if path.suffix == ".json":
            write_json(path, as_json(result))
        else:
            with open_write(path) as stream:
                stream.write(to_markdown(result).encode())


def markdown_cell(words: bytes) -> str:
    """The readable text as a cell of a Markdown table, without markup."""
    return _MARKDOWN.sub(r"\\\1", readable(words))
