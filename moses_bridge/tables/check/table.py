"""The contents of a phrase table, and its faults that would stop or mislead Moses, each with its line."""

from __future__ import annotations

import functools
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.alignment import parse_links
from moses_bridge.formats.phrase_table import (
    BLANKS,
    PhraseTableRow,
    agreed_number,
    alignment_of,
    columns_of,
    in_brackets,
    parse_row,
    parse_score,
    score_tokens,
    split_row,
)
from moses_bridge.formats.row_columns import (
    FEWEST_COLUMNS,
    PROPERTIES,
    SCORES,
    SOURCE,
    SPARSE,
    TARGET,
)
from moses_bridge.formats.words import split_words, to_number
from moses_bridge.tables.check.table_contents import SourceOrder, TableContents

MAX_SHOWN = 20
# Registered by moses/PP/Factory.cpp:61-69; any other one ends the decoder.
KNOWN_PROPERTIES = frozenset(
    b"Counts SourceLabels TargetConstituentBoundariesLeftAdjacent NonTermContext SpanLength Tree "
    b"TargetConstituentBoundariesRightAdjacent TargetPreferences Orientation".split()
)


@dataclass
class CheckReport:
    """The contents of a phrase table.

    Attributes:
        n_scores: expected dense scores of each row: those of the first good row, unless given.
        max_shown: largest number of kept faults of a kind.
        fault_counts: number of faults of each kind, by the expected.
        score_counts: rows of each number of scores.
    """

    path: str
    n_scores: int | None = None
    max_shown: int = MAX_SHOWN
    faults: list[InputError] = field(default_factory=list)
    fault_counts: Counter[str] = field(default_factory=Counter)
    n_rows: int = 0
    score_counts: Counter[int] = field(default_factory=Counter)
    order: SourceOrder = field(default_factory=SourceOrder)
    contents: TableContents = field(default_factory=TableContents)

    @property
    def n_faults(self) -> int:
        """All faults, including those not kept."""
        return self.fault_counts.total()

    def add_faults(self, faults: Iterable[InputError]) -> None:
        """Count faults, and keep some."""
        for fault in faults:
            self.fault_counts[fault.expected] += 1
            if self.fault_counts[fault.expected] <= self.max_shown:
                self.faults.append(fault)

    def summary(self) -> Iterator[str]:
        """Lines for a reader."""
        yield f"{self.n_rows:,} rows, {self.order.n_sources:,} sources, {self._scores()}"
        yield from self.order.summary()
        yield from self.contents.summary()
        yield f"faults: {self.n_faults:,}"
        for expected, n_faults in self.fault_counts.items():
            hidden = n_faults - self.max_shown
            shown = f" ({hidden:,} of them not shown)" if hidden > 0 else ""
            yield f"  expected {expected}: {n_faults:,}{shown}"

    def _scores(self) -> str:
        if len(self.score_counts) < 2:
            return f"{next(iter(self.score_counts), 0)} scores a row"
        counts = sorted(self.score_counts.items())
        return ", ".join(f"{n_scores} scores in {n_rows:,} rows" for n_scores, n_rows in counts)


def check_table(
    path: StrPath, n_scores: int | None = None, max_shown: int = MAX_SHOWN
) -> CheckReport:
    """Read a whole phrase table and collect its faults in a report, whose attributes the arguments are.

    InputError if the file itself cannot be read.
    """
    report = CheckReport(os.fspath(path), n_scores, max_shown)
    try:
        for line_number, line in enumerate(read_lines(path), start=1):
            report.n_rows += 1
            _check_line(line, line_number, report)
    except InputError as fault:
        if fault.line is None:
            raise
        report.add_faults([fault])
    return report


def _check_line(line: bytes, line_number: int, report: CheckReport) -> None:
    try:
        row = parse_row(line, report.path, line_number, report.n_scores)
    except InputError:
        report.add_faults(line_faults(line, report.path, line_number, report.n_scores))
        report.order.take(line, None, line_number)
        _count_faulty(line, line_number, report)
        return
    report.n_scores = len(row.scores)
    report.add_faults(row_faults(row, report.path, line_number))
    report.score_counts[report.n_scores] += 1
    report.order.take(line, row.source, line_number)
    report.contents.take(row, line_number)


def _count_faulty(line: bytes, line_number: int, report: CheckReport) -> None:
    """Count the scores of a malformed row, if it has any."""
    columns = columns_of(line)
    if len(columns) >= FEWEST_COLUMNS:
        scores = [to_number(token) for token in score_tokens(columns[SCORES])]
        report.score_counts[len(scores)] += 1
        report.contents.take_odd_scores(scores, line_number)


def line_faults(
    line: bytes, path: StrPath, line_number: int, n_scores: int | None
) -> Iterator[InputError]:
    """All faults of an unparsable row; only one if it has no columns."""
    try:
        columns = split_row(line, path, line_number)
    except InputError as fault:
        yield fault
        return
    tokens = score_tokens(columns[SCORES])
    yield from _raised(lambda: agreed_number(len(tokens), n_scores, path, line_number))
    for token in tokens:
        yield from _raised(functools.partial(parse_score, token, path, line_number))
    source, target = columns[SOURCE].strip(BLANKS), columns[TARGET].strip(BLANKS)
    row = PhraseTableRow(source, target, (), alignment_of(columns), line)
    yield from row_faults(row, path, line_number)


def row_faults(row: PhraseTableRow, path: StrPath, line_number: int) -> Iterator[InputError]:
    """The faults of a parsable row."""
    for phrase in (row.source, row.target):
        if b"[" in phrase or b"|" in phrase:
            yield from _word_faults(phrase, path, line_number)
    if row.alignment:
        source_len, target_len = len(split_words(row.source)), len(split_words(row.target))
        if not _links_fit(row.alignment, source_len, target_len):
            yield from _link_faults(row.alignment, source_len, target_len, path, line_number)
    if not row.line.endswith(b"||| |||"):
        yield from _tail_faults(columns_of(row.line.rstrip(b"\r")), path, line_number)


def _raised(check: Callable[[], object]) -> Iterator[InputError]:
    try:
        check()
    except InputError as fault:
        yield fault


def _word_faults(phrase: bytes, path: StrPath, line_number: int) -> Iterator[InputError]:
    for word in split_words(phrase):
        found = f"the word {shown(word)}"
        if in_brackets(word):
            hint = (
                "Moses takes it for a label (moses/Phrase.cpp:187-219); escape it as &#91;...&#93;"
            )
            yield InputError(path, line_number, found, "no word in brackets", hint)
        if b"|" in word and b"" in word.split(b"|"):
            hint = "Moses separates factors by |; escape it as &#124;"
            yield InputError(path, line_number, found, "no factor without text", hint)


@functools.lru_cache(maxsize=1 << 16)
def _links_fit(alignment: bytes, source_len: int, target_len: int) -> bool:
    """Whether all links are valid; cached, since many rows have the same alignment."""
    try:
        links = parse_links(alignment)
    except InputError:
        return False
    return all(source < source_len and target < target_len for source, target in links)


def _link_faults(
    alignment: bytes, source_len: int, target_len: int, path: StrPath, line_number: int
) -> Iterator[InputError]:
    for token in alignment.split():
        try:
            ((source, target),) = parse_links(token, path, line_number)
        except InputError as fault:
            yield fault
            continue
        if source >= source_len or target >= target_len:
            found = (
                f"the link {source}-{target} of {source_len} source and {target_len} target words"
            )
            expected = "links within the phrases, counted from 0"
            yield InputError(path, line_number, found, expected)


def _tail_faults(columns: list[bytes], path: StrPath, line_number: int) -> Iterator[InputError]:
    """Faults of the sparse features, of the properties and of any further columns."""
    if len(columns) > PROPERTIES + 1:
        expected, hint = (
            f"at most {PROPERTIES + 1}",
            "A ||| inside the data moves the columns behind it",
        )
        yield InputError(path, line_number, f"{len(columns)} columns", expected, hint)
    if len(columns) > SPARSE and columns[SPARSE].strip():
        yield from _sparse_faults(split_words(columns[SPARSE]), path, line_number)
    if len(columns) > PROPERTIES and columns[PROPERTIES].strip():
        yield from _property_faults(columns[PROPERTIES].strip(BLANKS), path, line_number)


def _sparse_faults(tokens: list[bytes], path: StrPath, line_number: int) -> Iterator[InputError]:
    if len(tokens) % 2:
        found = f"{len(tokens)} words of sparse features"
        yield InputError(path, line_number, found, "names and values in turn")
    for value in tokens[1::2]:
        if math.isnan(to_number(value)):
            found, hint = f"the sparse value {shown(value)}", "Moses takes anything else for 0"
            expected = "a number behind each sparse feature's name"
            yield InputError(path, line_number, found, expected, hint)


def _property_faults(column: bytes, path: StrPath, line_number: int) -> Iterator[InputError]:
    before, *properties = column.split(b"{{")
    if before.strip() or not all(b"}}" in one for one in properties):
        found = f"the properties {shown(column[:60])}"
        yield InputError(path, line_number, found, "{{Key value}} ...")
    for one in properties:
        key = one.partition(b" ")[0].rstrip(b"}")
        if key not in KNOWN_PROPERTIES:
            expected = "one that Moses knows: Counts, Tree, SpanLength ..."
            found, hint = f"the property {shown(key)}", "Moses stops at any other"
            yield InputError(path, line_number, found, expected, hint)
