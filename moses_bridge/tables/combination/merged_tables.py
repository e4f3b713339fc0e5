"""The union of sorted phrase tables, read in parallel: each pair with its row in each table.

In memory are a few thousand rows of each table, and at least those of one source phrase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.progress import Progress, estimated_lines
from moses_bridge.formats.phrase_table import read_blocks, read_rows
from moses_bridge.formats.row_columns import BAR

ROWS_AT_ONCE = 1 << 12
END = b" " + BAR  # follows each phrase, so that phrases compare like whole rows
JOINT = END + b" "


class TableRow(NamedTuple):
    """A row (1-based) of a table; key is the phrase pair as sorted, line the whole row without "\\n"."""

    key: bytes
    source: bytes
    target: bytes
    line: bytes
    path: Path
    line_number: int

    @property
    def at(self) -> tuple[bytes, Path, int]:
        """The arguments for reading a number of the row."""
        return self.line, self.path, self.line_number


class UnitedPair(NamedTuple):
    """A phrase pair of the union.

    Attributes:
        rows: the row of each table; None if it lacks the pair.
        source_rows: a row of each table with the same source phrase; None if it lacks that.
    """

    source: bytes
    target: bytes
    rows: tuple[TableRow | None, ...]
    source_rows: tuple[TableRow | None, ...]

    @property
    def first(self) -> tuple[int, TableRow]:
        """The index of the first table with the pair, and its row."""
        return next((place, row) for place, row in enumerate(self.rows) if row is not None)


def united_pairs(tables: Sequence[Path], label: str) -> Iterator[UnitedPair]:
    """Yield the pairs of tables with the same number of scores, sorted with LC_ALL=C, in that order.

    Raises:
        InputError: a row is malformed, out of order or repeated, or the numbers of scores differ.
    """
    n_scores = number_of_scores(tables)
    rows = [sorted_rows(table, n_scores) for table in tables]
    heads = [next(table, None) for table in rows]
    source_rows = tuple(heads)
    last_source = None
    n_rows = 0
    estimates = [estimated_lines(table) for table in tables]
    n_estimated = sum(n or 0 for n in estimates) if all(estimates) else None
    with Progress(label, n_estimated, "rows") as progress:
        while least := min(filter(None, heads), default=None):
            key, source = least.key, least.source
            found = tuple([head if head and head.key == key else None for head in heads])
            if source != last_source:  # all tables with this source have reached it
                source_rows = tuple(
                    [head if head and head.source == source else None for head in heads]
                )
                last_source = source
            yield UnitedPair(source, least.target, found, source_rows)
            for place, row in enumerate(found):
                if row:
                    heads[place] = next(rows[place], None)
                    n_rows += 1
            if n_rows >= ROWS_AT_ONCE:
                progress.update(n_rows)
                n_rows = 0
        progress.update(n_rows)
        progress.set_total_to_done()


def number_of_scores(tables: Sequence[Path]) -> int:
    """The number of scores of a row, the same in all tables.

    Raises:
        InputError: a table has no row, or another number than the first table.
    """
    n_scores = 0
    for table in tables:
        row = next(read_rows(table), None)
        if row is None:
            raise InputError(table, None, "no rows", "a phrase table")
        found = len(row.scores)
        if found != (n_scores or found):
            expected = f"{n_scores}, as in {tables[0]}"
            raise InputError(table, 1, f"{found} scores", expected, "Make the tables alike")
        n_scores = found
    return n_scores


def sorted_rows(table: Path, n_scores: int) -> Iterator[TableRow]:
    """Yield the rows of a table, checked; InputError if a row is malformed, out of order or repeated."""
    last = b""
    for block in read_blocks(table, ROWS_AT_ONCE, n_scores):
        phrases = zip(block.sources, block.targets, block.lines, strict=True)
        for line_number, (source, target, line) in enumerate(phrases, start=block.first_line):
            key = source + JOINT + target + END
            row = TableRow(key, source, target, line, table, line_number)
            if key <= last:
                raise _out_of_order(row, last)
            last = key
            yield row


def _out_of_order(row: TableRow, last: bytes) -> InputError:
    if row.key == last:
        found, hint = f"{shown(row.key)} twice", "Remove one of the rows"
    else:
        found, hint = f"{shown(row.key)} behind {shown(last)}", "Sort it with LC_ALL=C sort"
    return InputError(row.path, row.line_number, found, "rows in the order of their bytes", hint)
