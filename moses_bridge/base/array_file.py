"""Arrays that stand in files instead of in memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.textio import named_errors

Kind = TypeVar("Kind", bound=np.generic)


class ArrayFile(Generic[Kind]):
    """A row of numbers in a file; parts of it are read and written by their places.

    Args:
        file: an empty file, open for writing and reading.
        kind: of the numbers.
    """

    def __init__(self, file: BinaryIO, kind: type[Kind]) -> None:
        self._file = file
        self._kind = np.dtype(kind)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, values: NDArray[Any]) -> None:
        """Write numbers behind those that are there."""
        self.write(self._length, values)

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Write numbers from place `first` on.

        Raises:
            OSError: the disk is full.
        """
        data = np.ascontiguousarray(values, self._kind).view(np.uint8).data
        offset = first * self._kind.itemsize
        while data:
            n_written = os.pwrite(self._file.fileno(), data, offset)
            data, offset = data[n_written:], offset + n_written
        self._length = max(self._length, first + len(values))

    def lengthen(self, length: int) -> None:
        """Put zeros behind what is there."""
        os.ftruncate(self._file.fileno(), length * self._kind.itemsize)
        self._length = length

    def read(self, first: int, end: int) -> NDArray[Kind]:
        """The numbers from `first` to before `end`."""
        values = np.empty(end - first, self._kind)
        data, offset = values.view(np.uint8).data, first * self._kind.itemsize
        while data:
            n_read = os.preadv(self._file.fileno(), [data], offset)
            if not n_read:
                raise EOFError(f"{end} numbers were asked for of {self._length}")
            data, offset = data[n_read:], offset + n_read
        return cast("NDArray[Kind]", values)

    def mapped(self) -> NDArray[Kind]:
        """All numbers, as an array that the system reads in as they are asked for.

        They can be changed, but must not grow. The array stays when the file is closed.
        """
        if not self._length:
            return cast("NDArray[Kind]", np.empty(0, self._kind))
        n_bytes = self._length * self._kind.itemsize
        return np.frombuffer(mmap.mmap(self._file.fileno(), n_bytes), self._kind)

    def take(self, places: NDArray[Any]) -> NDArray[Kind]:
        """The numbers at places that ascend; equal ones are allowed.

        What is read at once spans no more places than are asked for.
        """
        values = np.empty(len(places), self._kind)
        for first, end in _near(places):
            begin = int(places[first])
            part = self.read(begin, int(places[end - 1]) + 1)
            values[first:end] = part[places[first:end] - begin]
        return cast("NDArray[Kind]", values)

    def add(self, places: NDArray[Any], amounts: NDArray[Any]) -> None:
        """Add to the numbers at places that ascend, each of them once."""
        for first, end in _near(places):
            begin = int(places[first])
            part: NDArray[Any] = self.read(begin, int(places[end - 1]) + 1)
            part[places[first:end] - begin] += amounts[first:end]
            self.write(begin, part)


def _near(places: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Cut ascending places into parts, none of which spans more places than there are altogether."""
    first = 0
    while first < len(places):
        end = int(np.searchsorted(places, int(places[first]) + len(places)))
        yield first, end
        first = end


class ArrayFiles(contextlib.ExitStack):
    """Files without names in one directory; the system frees them however the work ends.

    Args:
        directory: where there is room.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory

    def new(self, kind: type[Kind]) -> ArrayFile[Kind]:
        """An empty array.

        Raises:
            OSError: the directory takes no file.
        """
        opened = tempfile.TemporaryFile(dir=self.directory, buffering=0)  # noqa: SIM115 - entered
        file = self.enter_context(opened)
        return ArrayFile(cast(BinaryIO, file), kind)


@contextlib.contextmanager
def temporary_arrays() -> Iterator[ArrayFiles]:
    """Files in the directory of temporary files (TMPDIR).

    Raises:
        OSError: the disk is full; it names the directory.
    """
    directory = Path(tempfile.gettempdir())
    with named_errors(directory), ArrayFiles(directory) as files:
        yield files


Numbers = ArrayFile[np.int32] | ArrayFile[np.int64]


def numbers_below(limit: int, files: ArrayFiles) -> Numbers:
    """An empty array for numbers below a limit, of 32 bits where they suffice."""
    return files.new(np.int32) if limit <= np.iinfo(np.int32).max else files.new(np.int64)


def parts(length: int, at_once: int) -> Iterator[tuple[int, int]]:
    """First place and end of each part of at most `at_once` places."""
    for first in range(0, length, at_once):
        yield first, min(first + at_once, length)
