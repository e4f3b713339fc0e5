"""Sorted phrase tables read side by side: each pair of their union with its row in each table.

In memory are the rows of one source phrase at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.line_progress import estimated_lines
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.phrase_table import PhraseTableRow, agreed_number, parse_row
from moses_bridge.formats.row_columns import BAR

END = b" " + BAR  # behind each phrase, so that phrases compare as whole rows do
JOINT = END + b" "


class NumberedRow(NamedTuple):
    """A row of a table, and where it is.

    Attributes:
        row: the row.
        path: the table.
        line_number: 1-based.
    """

    row: PhraseTableRow
    path: Path
    line_number: int

    @property
    def key(self) -> bytes:
        """The phrase pair, as tables are sorted by it."""
        return self.row.source + JOINT + self.row.target + END

    @property
    def at(self) -> tuple[bytes, Path, int]:
        """The arguments with which a number of the row is read."""
        return self.row.line, self.path, self.line_number


class UnitedPair(NamedTuple):
    """A phrase pair of the union.

    Attributes:
        source: source phrase.
        target: target phrase.
        rows: the row of each table; None where it lacks the pair.
        source_rows: a row of each table with the same source phrase; None where it lacks that.
    """

    source: bytes
    target: bytes
    rows: tuple[NumberedRow | None, ...]
    source_rows: tuple[NumberedRow | None, ...]

    @property
    def first(self) -> NumberedRow:
        """The row of the first table that has the pair."""
        return next(row for row in self.rows if row is not None)

    @property
    def first_table(self) -> int:
        """The place of the first table that has the pair."""
        return next(place for place, row in enumerate(self.rows) if row is not None)


class _SourceRows(NamedTuple):
    source: bytes
    rows: list[NumberedRow]


def united_pairs(tables: Sequence[Path], label: str) -> Iterator[UnitedPair]:
    """Yield the pairs of all tables, in the order of the tables.

    Args:
        tables: tables with the same number of scores, sorted with LC_ALL=C.
        label: name of the work, for its progress.

    Raises:
        InputError: a row is malformed, out of order or there twice, or the numbers of scores differ.
    """
    n_scores = number_of_scores(tables)
    estimates = [estimated_lines(table) for table in tables]
    total = sum(n or 0 for n in estimates) if all(estimates) else None
    groups = [_source_groups(table, n_scores) for table in tables]
    current = [next(group, None) for group in groups]
    with Progress(label, total, "rows") as progress:
        while True:
            source = min((each.source + END for each in current if each), default=None)
            if source is None:
                break
            together = [each if each and each.source + END == source else None for each in current]
            yield from _pairs_of_source([each.rows if each else [] for each in together])
            progress.update(sum(len(each.rows) for each in together if each))
            for place, used in enumerate(together):
                if used:
                    current[place] = next(groups[place], None)
        progress.settle()


def number_of_scores(tables: Sequence[Path]) -> int:
    """The number of scores of a row, the same in all tables.

    Raises:
        InputError: a table has no row, or another number than the first one.
    """
    n_scores = 0
    for table in tables:
        row = next(read_rows(table, None), None)
        if row is None:
            raise InputError(table, None, "no rows", "a phrase table")
        found = len(row.row.scores)
        if found != (n_scores or found):
            expected = f"{n_scores}, as in {tables[0]}"
            raise InputError(table, 1, f"{found} scores", expected, "Make the tables alike")
        n_scores = agreed_number(found, None, table, 1)
    return n_scores


def read_rows(table: Path, n_scores: int | None) -> Iterator[NumberedRow]:
    """Yield the rows of a table, checked.

    Raises:
        InputError: a row is malformed, out of order or there twice.
    """
    last = b""
    for line_number, line in enumerate(read_lines(table), start=1):
        row = NumberedRow(parse_row(line, table, line_number, n_scores), table, line_number)
        key = row.key
        if key <= last:
            raise _out_of_order(row, last)
        last = key
        yield row


def _out_of_order(row: NumberedRow, last: bytes) -> InputError:
    if row.key == last:
        found, hint = f"{shown(row.key)} twice", "Remove one of the rows"
    else:
        found, hint = f"{shown(row.key)} behind {shown(last)}", "Sort it with LC_ALL=C sort"
    return InputError(row.path, row.line_number, found, "rows in the order of their bytes", hint)


def _source_groups(table: Path, n_scores: int) -> Iterator[_SourceRows]:
    for source, rows in groupby(read_rows(table, n_scores), key=attrgetter("row.source")):
        yield _SourceRows(source, list(rows))


def _pairs_of_source(rows: Sequence[Sequence[NumberedRow]]) -> Iterator[UnitedPair]:
    """The pairs of one source phrase; some tables have no rows of it."""
    by_target = [{each.row.target: each for each in of_table} for of_table in rows]
    source_rows = tuple(of_table[0] if of_table else None for of_table in rows)
    source = next(row for row in source_rows if row is not None).row.source
    for target in sorted(set().union(*by_target), key=lambda target: target + END):
        found = tuple(of_table.get(target) for of_table in by_target)
        yield UnitedPair(source, target, found, source_rows)
