"""The phrase table to score: facts of its first row, and its rows or those of a shard."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.provenance import file_digest
from moses_bridge.base.textio import Place, Stream, StrPath, read_lines
from moses_bridge.formats.phrase_table import (
    BLANKS,
    Block,
    alignment_column,
    blocks_of_rows,
    check_row,
    source_column,
)

BLOCKS_OF_A_SHARD = 2  # at least, so that no shard is empty unless one source fills several blocks
NumberedRow = tuple[int, bytes]


@dataclass(frozen=True)
class Shard:
    """The number-th, from 1, of n_shards parts of a table; together they make up the table.

    Parts begin at blocks of block_rows rows of an undivided run, so that both score the same blocks; with 0
    they begin at any source.
    """

    number: int
    n_shards: int
    block_rows: int = 0

    def rows(self, n_rows: int) -> range:
        """The line numbers at which this shard may begin a block, in a table of n_rows rows."""
        first = (self.number - 1) * n_rows // self.n_shards
        return range(first + 1, self.number * n_rows // self.n_shards + 1)


def parse_shard(text: str) -> Shard:
    """Parse a shard, "I/N"; ConfigError if the text is something else, or I is not in 1..N."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ConfigError(f"no shard {text!r}: write I/N, the I-th of N parts, say 1/8")
    return Shard(int(match[1]), int(match[2]))


def numbered_rows(table: StrPath) -> Generator[NumberedRow, None, None]:
    """All rows with their line numbers."""
    yield from enumerate(read_lines(table), start=1)


def shard_rows(table: StrPath, shard: Shard) -> Generator[NumberedRow, None, None]:
    """The rows of a shard with their line numbers; no source is divided between two shards.

    A table with fewer than two blocks per shard is divided at any source. The table is read twice:
    first to count its rows.
    """
    n_rows = _n_rows(table)
    firsts = shard.rows(n_rows)
    has_blocks = n_rows >= BLOCKS_OF_A_SHARD * shard.block_rows * shard.n_shards
    block_rows = shard.block_rows if has_blocks else 0
    last_source, is_inside, block_start = None, False, 1
    for line_number, line in numbered_rows(table):
        source = source_column(line).strip(BLANKS)
        if source != last_source:
            last_source = source
            if line_number == 1 or line_number - block_start >= block_rows:
                block_start, is_inside = line_number, line_number in firsts
                if line_number >= firsts.stop:
                    return
        if is_inside:
            yield line_number, line


def _n_rows(table: StrPath) -> int:
    n_rows = 0
    with LineProgress("count rows", table) as progress:
        for n_rows, _ in numbered_rows(table):
            if n_rows % 100_000 == 0:
                progress.update(100_000)
        progress.update(n_rows % 100_000)
    return n_rows


@dataclass
class BadRows:
    """The malformed rows left out by a run; more of them than the limit are an error.

    With are_probs a row with a negative score is malformed.
    """

    limit: int
    are_probs: bool = False
    rows: list[bytes] = field(default_factory=list)

    def well_formed(self, rows: Iterable[NumberedRow], path: StrPath) -> Iterator[NumberedRow]:
        """Yield the well-formed rows, and keep the malformed ones in `rows`.

        Raises:
            InputError: there are more malformed rows than the limit.
        """
        n_scores = None
        for line_number, line in rows:
            try:
                n_scores = check_row(line, path, line_number, n_scores, self.are_probs)
            except InputError:
                if len(self.rows) >= self.limit:
                    raise
                self.rows.append(line)
            else:
                yield line_number, line


@dataclass
class SourceTable:
    """A phrase table or a shard of it, with facts of its first row; its rows can be read once.

    The path "-" is standard input. The rows are those to score, with their line numbers; bad_rows
    are the malformed ones left out so far.
    """

    path: str
    identity: dict[str, Any]
    n_scores: int
    has_alignment: bool
    shard: Shard | None
    bad_rows: BadRows
    rows: Iterator[NumberedRow]

    @classmethod
    def open(
        cls,
        place: Place,
        max_bad_rows: int = 0,
        shard: Shard | None = None,
        are_probs: bool = False,
    ) -> SourceTable:
        """Open a table, or a shard of it, and read the first row but for malformed ones left out.

        With are_probs its scores are probabilities, and a negative one is an error.

        Raises:
            InputError: there is no row, or the first one is malformed.
        """
        path, identity = str(place), table_identity(place)
        bad_rows = BadRows(max_bad_rows, are_probs)
        rows = shard_rows(path, shard) if shard else numbered_rows(path)
        with contextlib.ExitStack() as on_error:
            on_error.callback(rows.close)
            chosen = bad_rows.well_formed(rows, path) if max_bad_rows else rows
            first = next(chosen, None)
            if first is None:
                expected = "a phrase table, or fewer shards of it"
                raise InputError(path, None, "no row to score", expected)
            line_number, line = first
            n_scores = check_row(line, path, line_number, None)  # signs: with its block
            on_error.pop_all()
        has_alignment = bool(alignment_column(line))
        return cls(path, identity, n_scores, has_alignment, shard, bad_rows, chain([first], chosen))

    def blocks(self, block_rows: int, n_done: int = 0) -> Iterator[Block]:
        """The blocks after the n_done rows written by an earlier run, each with whole sources.

        Raises:
            InputError: a row is malformed, or there are more such rows than may be left out.
        """
        n_earlier = 0
        are_probs = self.bad_rows.are_probs
        for block in blocks_of_rows(self.rows, self.path, block_rows, are_probs=are_probs):
            if n_earlier >= n_done:
                yield block
            n_earlier += len(block)


def table_identity(table: Place) -> dict[str, Any]:
    """Path, size, time of change and SHA-256 of a table; the path alone for a stream or a missing file.

    The digest takes less than a second for a gigabyte, which no scorer reads in ten.
    """
    if isinstance(table, Stream) or not table.exists():
        return {"path": str(table)}
    state = table.stat()
    return {
        "path": str(table.resolve()),
        "bytes": state.st_size,
        "modified_ns": state.st_mtime_ns,
        "sha256": file_digest(table),
    }
