"""Records of table rows on disk, in parts by the hash of their sources."""

from __future__ import annotations

import os
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rescorer.training.pairs.distinct_pairs import N_PARTS, partition
from rescorer.training.pairs.row_records import N_NUMBERS, N_SEEN

# Numbers of a run, 4 bytes each: some two million rows are put in order at a time.
RUN_NUMBERS = 2**24
NUMBER_BYTES = 4
# Row numbers of a run must go into 32 bits, also where nearly all rows are left out.
MOST_ROWS = 2**31


class _Run(NamedTuple):
    """Records written together.

    Attributes:
        offset: of the first one in the file, in numbers.
        bounds: where each part begins behind it, and where the last one ends, *Shape:* (N_PARTS + 1,).
        first_row: of the table, to which the records' row numbers are added.
    """

    offset: int
    bounds: NDArray[np.int64]
    first_row: int


class Part(NamedTuple):
    """The records of a part, as `distinct_pairs` takes them."""

    records: NDArray[np.uint32]
    run_ends: NDArray[np.int64]
    run_rows: NDArray[np.int64]


class RecordSpill:
    """Records that come in the order of the table and are read part by part.

    Args:
        file: an empty file, open for writing and reading.

    Attributes:
        records: into which `row_records.read_records` writes.
        state: its state.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.records = np.empty(RUN_NUMBERS, np.uint32)
        self.state = np.zeros(2, np.int64)
        self._parted = np.empty(RUN_NUMBERS, np.uint32)
        self._file = file
        self._runs: list[_Run] = []
        self._first_row = self._n_written = 0

    @property
    def n_seen(self) -> int:
        """Rows of the table seen so far."""
        return self._first_row + int(self.state[N_SEEN])

    def make_room(self, n_numbers: int) -> None:
        """Make room in `records` for n_numbers more numbers.

        Raises:
            OSError: the disk is full.
        """
        if self.state[N_NUMBERS] + n_numbers > len(self.records) or self.state[N_SEEN] > MOST_ROWS:
            self.flush()
        if n_numbers > len(self.records):
            self.records, self._parted = (np.empty(n_numbers, np.uint32) for _ in range(2))

    def flush(self) -> None:
        """Write what is in `records`.

        Raises:
            OSError: the disk is full.
        """
        n_numbers = int(self.state[N_NUMBERS])
        bounds = partition(self.records, n_numbers, self._parted)
        self._file.write(self._parted[:n_numbers].data.cast("B"))
        self._file.flush()
        self._runs.append(_Run(self._n_written, bounds, self._first_row))
        self._n_written += n_numbers
        self._first_row = self.n_seen
        self.state[:] = 0

    def parts(self) -> list[int]:
        """Give the memory of what comes back, and say which parts there are."""
        self.flush()
        self.records = self._parted = np.empty(0, np.uint32)
        return list(range(N_PARTS))

    def part(self, number: int) -> Part:
        """The records of a part, in the order of the table."""
        pieces = [self._read(run, number) for run in self._runs]
        return Part(
            np.concatenate(pieces),
            np.cumsum([len(piece) for piece in pieces]),
            np.array([run.first_row for run in self._runs], np.int64),
        )

    def _read(self, run: _Run, number: int) -> NDArray[np.uint32]:
        first, end = (int(run.offset + bound) for bound in run.bounds[number : number + 2])
        n_bytes = (end - first) * NUMBER_BYTES
        return np.frombuffer(
            os.pread(self._file.fileno(), n_bytes, first * NUMBER_BYTES), np.uint32
        )
