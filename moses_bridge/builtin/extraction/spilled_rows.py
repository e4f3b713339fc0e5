"""Rows of arrays in a file instead of in memory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.textio import named_errors

Columns = TypeVar("Columns", bound=tuple[NDArray[Any], ...])


class SpilledRows(Generic[Columns]):
    """Arrays side by side, appended to a file and read back by row numbers, by several threads if need be.

    `empty` is a NamedTuple of arrays without rows, with the types and shapes of those appended; n_rows is the
    number of rows so far.
    """

    def __init__(self, file: BinaryIO, empty: Columns) -> None:
        self.n_rows = 0
        self._file = file
        self._columns = cast(Callable[..., Columns], type(empty))
        self._row = np.dtype([(f"f{i}", c.dtype, c.shape[1:]) for i, c in enumerate(empty)])

    def append(self, columns: Columns) -> None:
        """Append rows.

        Raises:
            OSError: the disk is full.
        """
        rows = np.empty(len(columns[0]), self._row)
        for name, column in zip(self._row.names or (), columns, strict=True):
            rows[name] = column
        self._file.write(rows.tobytes())
        self._file.flush()
        self.n_rows += len(rows)

    def read(self, first: int, end: int) -> Columns:
        """The rows from `first` to before `end`."""
        n_bytes = self._row.itemsize
        data = os.pread(self._file.fileno(), (end - first) * n_bytes, first * n_bytes)
        rows = np.frombuffer(data, self._row)
        return self._columns(*(rows[name].copy() for name in self._row.names or ()))


@contextlib.contextmanager
def spilled_rows(beside: Path, empty: Columns) -> Iterator[SpilledRows[Columns]]:
    """An anonymous file in the directory of `beside`; the system frees it however the work ends.

    Raises:
        OSError: the disk is full; names `beside`.
    """
    with named_errors(beside), tempfile.TemporaryFile(dir=beside.parent) as file:
        yield SpilledRows(cast(BinaryIO, file), empty)
