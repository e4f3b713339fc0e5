"""Arrays in files instead of in memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.textio import named_errors

Kind = TypeVar("Kind", bound=np.generic)
Columns = TypeVar("Columns", bound=tuple[NDArray[Any], ...])


class ArrayFile(Generic[Kind]):
    """A one-dimensional array of one type in a file opened empty; parts are read and written by index."""

    def __init__(self, file: BinaryIO, kind: type[Kind] | np.dtype[Kind]) -> None:
        self._file = file
        self._kind = np.dtype(kind)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, values: NDArray[Any]) -> None:
        """Write numbers (n,) at the end; OSError if the disk is full."""
        self.write(self._length, values)

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Write numbers (n,) from index `first` on; OSError if the disk is full."""
        data = np.ascontiguousarray(values, self._kind).view(np.uint8).data
        offset = first * self._kind.itemsize
        while data:
            n_written = os.pwrite(self._file.fileno(), data, offset)
            data, offset = data[n_written:], offset + n_written
        self._length = max(self._length, first + len(values))

    def lengthen(self, length: int) -> None:
        """Extend the array to a length, with zeros."""
        os.ftruncate(self._file.fileno(), length * self._kind.itemsize)
        self._length = length

    def read(self, first: int, end: int) -> NDArray[Kind]:
        """The numbers at `first` to `end - 1`, *Shape:* (end - first,); EOFError if the array is shorter."""
        values = np.empty(end - first, self._kind)
        data, offset = values.view(np.uint8).data, first * self._kind.itemsize
        while data:
            n_read = os.preadv(self._file.fileno(), [data], offset)
            if not n_read:
                raise EOFError(f"{end} numbers were asked for of {self._length}")
            data, offset = data[n_read:], offset + n_read
        return cast("NDArray[Kind]", values)

    def mapped(self) -> NDArray[Kind]:
        """A memory map of all numbers (length,), writable, not extensible, valid after the file is closed."""
        if not self._length:
            return cast("NDArray[Kind]", np.empty(0, self._kind))
        n_bytes = self._length * self._kind.itemsize
        return np.frombuffer(mmap.mmap(self._file.fileno(), n_bytes), self._kind)

    def take(self, places: NDArray[Any]) -> NDArray[Kind]:
        """The numbers at ascending indices, *Shape:* (n,) -> (n,); equal indices are allowed.

        A single read spans at most n numbers.
        """
        values = np.empty(len(places), self._kind)
        for first, end in _near(places):
            begin = int(places[first])
            part = self.read(begin, int(places[end - 1]) + 1)
            values[first:end] = part[places[first:end] - begin]
        return cast("NDArray[Kind]", values)

    def add(self, places: NDArray[Any], amounts: NDArray[Any]) -> None:
        """Add `amounts` (n,) to the numbers at strictly ascending indices (n,)."""
        for first, end in _near(places):
            begin = int(places[first])
            part: NDArray[Any] = self.read(begin, int(places[end - 1]) + 1)
            part[places[first:end] - begin] += amounts[first:end]
            self.write(begin, part)


def _near(places: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Cut n ascending indices into parts, each spanning at most n numbers."""
    first = 0
    while first < len(places):
        end = int(np.searchsorted(places, int(places[first]) + len(places)))
        yield first, end
        first = end


class ArrayFiles(contextlib.ExitStack):
    """Nameless files in one directory, freed by the system however the process ends."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory

    def new(self, kind: type[Kind] | np.dtype[Kind]) -> ArrayFile[Kind]:
        """An empty array; OSError if no file can be made in the directory."""
        opened = tempfile.TemporaryFile(dir=self.directory, buffering=0)  # noqa: SIM115 - entered
        file = self.enter_context(opened)
        return ArrayFile(cast(BinaryIO, file), kind)


@contextlib.contextmanager
def temporary_arrays() -> Iterator[ArrayFiles]:
    """Array files in the directory of temporary files (TMPDIR), until the end of the `with` block.

    Raises:
        OSError: the disk is full; the error names the directory.
    """
    directory = Path(tempfile.gettempdir())
    with named_errors(directory), ArrayFiles(directory) as files:
        yield files


Numbers = ArrayFile[np.int32] | ArrayFile[np.int64]


def numbers_below(limit: int, files: ArrayFiles) -> Numbers:
    """An empty array for numbers below a limit, with 32 bits per number if possible."""
    return files.new(np.int32) if limit <= np.iinfo(np.int32).max else files.new(np.int64)


def parts(length: int, at_once: int) -> Iterator[tuple[int, int]]:
    """Yield the first index and the end of each part of at most `at_once` numbers."""
    for first in range(0, length, at_once):
        yield first, min(first + at_once, length)


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
