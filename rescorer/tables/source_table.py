"""The phrase table to score, opened once, with the facts of its first row."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import is_stream
from moses_bridge.formats.phrase_table import alignment_column, check_row
from rescorer.tables.rows import BadRows, NumberedRow, Shard, numbered_rows, shard_rows


@dataclass
class SourceTable:
    """A phrase table or a shard of it; its rows can be read once.

    Attributes:
        path: path of the table; "-" is standard input.
        n_scores: number of dense scores of a row.
        has_alignment: whether the first row has word links.
        shard: the part to score; None for all of it.
        bad_rows: the malformed rows left out so far.
        rows: the rows to score, with their line numbers.
    """

    path: str
    n_scores: int
    has_alignment: bool
    shard: Shard | None
    bad_rows: BadRows
    rows: Iterator[NumberedRow]

    @classmethod
    def open(cls, path: str, max_bad_rows: int = 0, shard: Shard | None = None) -> SourceTable:
        """Open a table and read its first row.

        Args:
            path: the table; "-" is standard input.
            max_bad_rows: largest number of malformed rows to leave out.
            shard: the part to score; None for all of it.

        Raises:
            InputError: there is no row, or the first one is malformed.
        """
        bad_rows = BadRows(max_bad_rows)
        rows = shard_rows(path, shard) if shard else numbered_rows(path)
        with contextlib.ExitStack() as on_error:
            on_error.callback(rows.close)
            chosen = bad_rows.well_formed(rows, path) if max_bad_rows else rows
            first = next(chosen, None)
            if first is None:
                expected = "a phrase table, or fewer shards of it"
                raise InputError(path, None, "no row to score", expected)
            line_number, line = first
            n_scores = check_row(line, path, line_number, None)
            on_error.pop_all()
        has_alignment = bool(alignment_column(line))
        return cls(path, n_scores, has_alignment, shard, bad_rows, chain([first], chosen))

    @property
    def identity(self) -> dict[str, Any]:
        """See `table_identity`."""
        return table_identity(self.path)


def table_identity(path: str) -> dict[str, Any]:
    """Path, size and time of change of a table; the path alone for a stream or a missing file."""
    if is_stream(path) or not Path(path).exists():
        return {"path": path}
    state = Path(path).stat()
    return {
        "path": str(Path(path).resolve()),
        "bytes": state.st_size,
        "modified_ns": state.st_mtime_ns,
    }
