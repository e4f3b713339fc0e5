"""The rows to score: those of a whole phrase table or a shard, less malformed ones to be left out."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.phrase_table import BLANKS, check_row, source_column

BLOCKS_OF_A_SHARD = 2  # at least, so that no shard is empty unless one source fills several blocks
NumberedRow = tuple[int, bytes]


@dataclass(frozen=True)
class Shard:
    """One of n_shards parts of a table; together they make up the table.

    Attributes:
        number: number of the part, from 1.
        n_shards: number of parts.
        block_rows: number of rows of a block. Parts begin at blocks of an undivided run, so that both
            score the same blocks; 0 lets them begin at any source.
    """

    number: int
    n_shards: int
    block_rows: int = 0

    def rows(self, n_rows: int) -> range:
        """The line numbers at which this shard may begin a block, in a table of n_rows rows."""
        first = (self.number - 1) * n_rows // self.n_shards
        return range(first + 1, self.number * n_rows // self.n_shards + 1)


def parse_shard(text: str) -> Shard:
    """Parse a shard, "I/N".

    Raises:
        ConfigError: the text is something else, or I is not in 1..N.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ConfigError(f"no shard {text!r}: write I/N, the I-th of N parts, say 1/8")
    return Shard(int(match[1]), int(match[2]))


def numbered_rows(table: StrPath) -> Generator[NumberedRow, None, None]:
    """All rows with their line numbers."""
    yield from enumerate(read_lines(table), start=1)


def shard_rows(table: StrPath, shard: Shard) -> Generator[NumberedRow, None, None]:
    """The rows of a shard with their line numbers; no source is divided between two shards.

    A table with fewer than two blocks per shard is divided at any source. The table is read twice: first
    to count its rows.
    """
    n_rows = _n_rows(table)
    firsts = shard.rows(n_rows)
    has_blocks = n_rows >= BLOCKS_OF_A_SHARD * shard.block_rows * shard.n_shards
    block_rows = shard.block_rows if has_blocks else 0
    last_source, is_inside, block_start = None, False, 1
    for line_number, line in enumerate(read_lines(table), start=1):
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
        for n_rows, _ in enumerate(read_lines(table), start=1):
            if n_rows % 100_000 == 0:
                progress.update(100_000)
        progress.update(n_rows % 100_000)
    return n_rows


@dataclass
class BadRows:
    """The malformed rows left out by a run, up to a limit.

    Attributes:
        limit: largest number of such rows; one more is an error.
        rows: the rows left out so far.
    """

    limit: int
    rows: list[bytes] = field(default_factory=list)

    def well_formed(self, rows: Iterable[NumberedRow], path: StrPath) -> Iterator[NumberedRow]:
        """Yield the well-formed rows, and keep the malformed ones in `rows`.

        Raises:
            InputError: there are more malformed rows than the limit.
        """
        n_scores = None
        for line_number, line in rows:
            try:
                n_scores = check_row(line, path, line_number, n_scores)
            except InputError:
                if len(self.rows) >= self.limit:
                    raise
                self.rows.append(line)
            else:
                yield line_number, line
