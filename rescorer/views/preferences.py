"""Targets preferred by a table and networks for long source phrases: Table 2 of Cho et al. (2014)."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.config import AtLeast, AtMost, Limited
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.json_files import write_json
from moses_bridge.base.progress import track_blocks
from moses_bridge.base.textio import open_write
from moses_bridge.formats.phrase_table import (
    Block,
    alignment_column,
    direct_prob,
    read_blocks,
    source_count,
)
from moses_bridge.formats.words import as_text, readable, split_words
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import NamedScorer

ROWS_AT_ONCE = 50_000
Kind = Literal["frequent", "rare"]
KINDS: tuple[Kind, ...] = ("frequent", "rare")
SUFFIXES = (".md", ".json")
LINE_END = "  \n"  # two blanks keep a line of its own in a paragraph
# CommonMark: a backslash before any of these makes it plain text.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&:@^$=])")


@dataclass(frozen=True)
class PreferencesConfig(Limited):
    """The source phrases to draw, and how much is shown of each.

    Attributes:
        min_words: words of a source phrase at least; "more than 3" in Cho et al. (2014), section
            4.4.
        min_targets: targets of a source phrase at least; with fewer there is nothing to prefer.
        share: the most frequent share of the phrases with so many words and targets counts as
            frequent, the least frequent one as rare.
        n_phrases: source phrases drawn of each kind.
        n_best: targets shown of each.
        seed: of the draw.
    """

    min_words: Annotated[int, AtLeast(1)] = 4
    min_targets: Annotated[int, AtLeast(1)] = 3
    share: Annotated[float, AtLeast(0), AtMost(0.5)] = 0.1
    n_phrases: Annotated[int, AtLeast(1)] = 10
    n_best: Annotated[int, AtLeast(1)] = 3
    seed: int = 1


@dataclass(frozen=True)
class Preferred:
    """The best targets of a source phrase by one model, equal ones in the order of the table.

    The values are p(target | source) of the table, or a scorer's log p(target | source) in nats.
    """

    targets: tuple[bytes, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class SourcePhrase:
    """A source phrase with all its targets in a table and their word links.

    The count is how often it was extracted, the second number of column 5; the probs are p(target |
    source) of each target, the third score.
    """

    source: bytes
    kind: Kind
    count: float
    targets: tuple[bytes, ...]
    probs: tuple[float, ...]
    links: tuple[bytes, ...]


@dataclass(frozen=True)
class Preference:
    """The best targets of one source phrase, by the table and by each network's name."""

    phrase: SourcePhrase
    table: Preferred
    models: Mapping[str, Preferred]


@dataclass(frozen=True)
class Preferences:
    """Preferences of frequent phrases, then of rare ones, each in the order of the table.

    n_long source phrases are long enough, with enough targets; least_frequent is the lowest count of a
    frequent phrase, most_rare the highest of a rare one.
    """

    config: PreferencesConfig
    n_long: int
    least_frequent: float
    most_rare: float
    rows: tuple[Preference, ...]

    @property
    def agreement(self) -> dict[str, float]:
        """Share of the source phrases whose best target by a network is a best one of the table."""
        names = self.rows[0].models if self.rows else {}
        return {name: float(np.mean([_agrees(row, name) for row in self.rows])) for name in names}


def _agrees(row: Preference, name: str) -> bool:
    best = row.phrase.targets.index(row.models[name].targets[0])
    return row.phrase.probs[best] == max(row.phrase.probs)


def preferences(
    table: Path, scorers: Sequence[NamedScorer], config: PreferencesConfig
) -> Preferences:
    """Draw source phrases of a table with counts, and rank its targets of each.

    The scorers have different names. The table is read twice; its long source phrases and all rows
    of those drawn are in memory.

    Raises:
        InputError: a row is malformed or has no counts, or there are no frequent and rare phrases.
    """
    long = _long_sources(table, config)
    sources, counts = list(long), np.array(list(long.values()))
    least_frequent, most_rare = _thresholds(counts, config.share, table)
    pools = (counts >= least_frequent, counts <= most_rare)
    rng = np.random.default_rng(config.seed)
    kinds: dict[bytes, Kind] = {}
    for kind, pool in zip(KINDS, pools, strict=True):
        drawn = rng.permutation(np.flatnonzero(pool))[: config.n_phrases]
        kinds |= {sources[row]: kind for row in drawn}
    phrases = sorted(_drawn_phrases(table, kinds), key=lambda phrase: KINDS.index(phrase.kind))
    rows = tuple(_preference(phrase, scorers, config.n_best) for phrase in phrases)
    return Preferences(config, len(counts), least_frequent, most_rare, rows)


def _thresholds(counts: NDArray[np.float64], share: float, table: Path) -> tuple[float, float]:
    ranked = np.sort(counts)
    n_share = max(int(share * len(ranked)), 1)
    least_frequent, most_rare = float(ranked[-n_share]), float(ranked[n_share - 1])
    if least_frequent <= most_rare:
        found = f"a count of {most_rare:g} for frequent and for rare source phrases"
        hint = "Use a larger table, fewer words (--min-words) or fewer targets (--min-targets)"
        raise InputError(table, None, found, "phrases of different frequency", hint)
    return least_frequent, most_rare


def _long_sources(table: Path, config: PreferencesConfig) -> dict[bytes, float]:
    found: dict[bytes, float] = {}
    for block in track_blocks(read_blocks(table, ROWS_AT_ONCE), "find long phrases", table):
        for first, n_rows in _groups(block):
            source = block.sources[first]
            if n_rows >= config.min_targets and len(split_words(source)) >= config.min_words:
                line_number = block.first_line + first
                _refuse_second_run(source, found, table, line_number)
                found[source] = source_count(block.lines[first], table, line_number)
    if not found:
        long = f"{config.min_words} words or more with {config.min_targets} targets"
        hint = "Ask for fewer words (--min-words) or fewer targets (--min-targets)"
        raise InputError(table, None, f"no source phrase of {long}", "some", hint)
    return found


def _refuse_second_run(
    source: bytes, before: Container[bytes], table: Path, line_number: int
) -> None:
    if source in before:
        found = f"the source {shown(source)} again"
        expected = "all rows of a source together"
        raise InputError(table, line_number, found, expected, "Sort the table: LC_ALL=C sort")


def _groups(block: Block) -> Iterator[tuple[int, int]]:
    """First row and number of rows of each run of one source."""
    first = 0
    for row in range(1, len(block) + 1):
        if row == len(block) or block.sources[row] != block.sources[first]:
            yield first, row - first
            first = row


def _drawn_phrases(table: Path, kinds: Mapping[bytes, Kind]) -> Iterator[SourcePhrase]:
    met = set[bytes]()
    for block in track_blocks(read_blocks(table, ROWS_AT_ONCE), "read drawn phrases", table):
        for first, n_rows in _groups(block):
            source = block.sources[first]
            if source in kinds:
                _refuse_second_run(source, met, table, block.first_line + first)
                met.add(source)
                yield _source_phrase(block, range(first, first + n_rows), kinds[source], table)


def _source_phrase(block: Block, rows: range, kind: Kind, table: Path) -> SourcePhrase:
    lines = [(block.lines[row], table, block.first_line + row) for row in rows]
    return SourcePhrase(
        block.sources[rows.start],
        kind,
        source_count(*lines[0]),
        tuple(block.targets[row] for row in rows),
        tuple(direct_prob(*line) for line in lines),
        tuple(alignment_column(line) for line, _, _ in lines),
    )


def _preference(phrase: SourcePhrase, scorers: Sequence[NamedScorer], n_best: int) -> Preference:
    batch = Batch([phrase.source] * len(phrase.targets), phrase.targets, phrase.links)
    models = {
        named.name: _best(phrase.targets, named.scorer.values(batch).tolist(), n_best)
        for named in scorers
    }
    return Preference(phrase, _best(phrase.targets, phrase.probs, n_best), models)


def _best(targets: Sequence[bytes], values: Sequence[float], n_best: int) -> Preferred:
    order = np.argsort(-np.array(values), kind="stable")[:n_best]
    return Preferred(tuple(targets[row] for row in order), tuple(values[row] for row in order))


def as_json(result: Preferences) -> dict[str, Any]:
    """For a JSON file."""
    return {
        "seed": result.config.seed,
        "min_words": result.config.min_words,
        "min_targets": result.config.min_targets,
        "n_long": result.n_long,
        "least_frequent": result.least_frequent,
        "most_rare": result.most_rare,
        "agreement": result.agreement,
        "phrases": [_row_as_json(row) for row in result.rows],
    }


def _row_as_json(row: Preference) -> dict[str, Any]:
    return {
        "source": as_text(row.phrase.source),
        "kind": row.phrase.kind,
        "count": row.phrase.count,
        "n_targets": len(row.phrase.targets),
        "table": _as_list(row.table, "prob"),
        "models": {name: _as_list(best, "log_prob") for name, best in row.models.items()},
    }


def _as_list(best: Preferred, value: str) -> list[dict[str, Any]]:
    pairs = zip(best.targets, best.values, strict=True)
    return [{"target": as_text(target), value: number} for target, number in pairs]


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
