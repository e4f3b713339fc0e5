"""Rows of arrays in a file instead of in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, ArrayFiles
from moses_bridge.base.textio import named_errors

Columns = TypeVar("Columns", bound=tuple[NDArray[Any], ...])


class SpilledRows(Generic[Columns]):
    """Arrays side by side, appended to a file and read back by row numbers, by several threads if need be.

    `empty` is a NamedTuple of arrays without rows, with the types and shapes of those appended.
    """

    def __init__(self, files: ArrayFiles, empty: Columns) -> None:
        self._columns = cast(Callable[..., Columns], type(empty))
        self._row = np.dtype([(f"f{i}", c.dtype, c.shape[1:]) for i, c in enumerate(empty)])
        self._file: ArrayFile[np.void] = files.new(self._row)

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return len(self._file)

    def append(self, columns: Columns) -> None:
        """Append rows; OSError if the disk is full."""
        rows = np.empty(len(columns[0]), self._row)
        for name, column in zip(self._row.names or (), columns, strict=True):
            rows[name] = column
        self._file.append(rows)

    def read(self, first: int, end: int) -> Columns:
        """The rows from `first` to before `end`."""
        rows = self._file.read(first, end)
        return self._columns(*(rows[name].copy() for name in self._row.names or ()))


@contextlib.contextmanager
def spilled_rows(beside: Path, empty: Columns) -> Iterator[SpilledRows[Columns]]:
    """Rows in a nameless file in the directory of `beside`; OSError if the disk is full, naming `beside`."""
    with named_errors(beside), ArrayFiles(beside.parent) as files:
        yield SpilledRows(files, empty)
