"""Records of table rows on disk, in parts by the hash of their sources, and the distinct pairs of a part."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import FREE, compiled_n_slots, hash_next, slot_of
from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import njit
from rescorer.training.pairs.row_records import (
    HEADER,
    N_NUMBERS,
    N_SEEN,
    hash_words,
    joint_count_of,
    source_words,
    target_words,
)

# The highest bits of a source's hash name its part; the lowest ones its slot in the table of a part.
PART_BITS = 8
N_PARTS = 2**PART_BITS
# Numbers of a run, 4 bytes each: some two million rows are put in order at a time.
RUN_NUMBERS = 2**24
NUMBER_BYTES = 4
# Row numbers of a run must go into 32 bits, also where nearly all rows are left out.
MOST_ROWS = 2**31


class PairColumns(NamedTuple):
    """Distinct phrase pairs, grouped by source, as numbers of words.

    Attributes:
        first_rows: the first row of each source in the table, from 0, *Shape:* (n_sources,).
        source_lens: words in each, *Shape:* (n_sources,).
        source_words: one source after another, *Shape:* (n_source_words,).
        n_targets: pairs of each source, *Shape:* (n_sources,).
        target_lens: words in each, source by source, *Shape:* (n_pairs,).
        target_words: one target after another, *Shape:* (n_target_words,).
        counts: the joint count of each pair, *Shape:* (n_pairs,).
    """

    first_rows: NDArray[np.int64]
    source_lens: NDArray[np.uint16]
    source_words: NDArray[np.uint32]
    n_targets: NDArray[np.uint32]
    target_lens: NDArray[np.uint16]
    target_words: NDArray[np.uint32]
    counts: NDArray[np.float64]


@njit(nogil=True)
def partition(
    records: NDArray[np.uint32], n_numbers: int, out: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Sort records, n_numbers in all, by part into `out`, keeping the order of arrival within a part.

    Returns the start of each part in `out`, and the end of the last one, *Shape:* (N_PARTS + 1,).
    """
    bounds = np.zeros(N_PARTS + 1, np.int64)
    record = 0
    while record < n_numbers:
        bounds[_part_of(records, record) + 1] += _length(records, record)
        record += _length(records, record)
    bounds = np.cumsum(bounds)
    places = bounds.copy()
    record = 0
    while record < n_numbers:
        part, length = _part_of(records, record), _length(records, record)
        for number in range(length):
            out[places[part] + number] = records[record + number]
        places[part] += length
        record += length
    return bounds


@njit(nogil=True)
def distinct_pairs(
    records: NDArray[np.uint32], run_ends: NDArray[np.int64], run_rows: NDArray[np.int64]
) -> PairColumns:
    """The distinct pairs of all records of a part: sources, and targets of a source, in the order of the table.

    A repeated pair has its last count. Each run of records has its end and what is added to its row numbers,
    *Shape:* (n_runs,).
    """
    n_records = _n_records(records)
    source_slots = np.full(compiled_n_slots(n_records), FREE, np.int32)
    pair_slots = np.full(compiled_n_slots(n_records), FREE, np.int32)
    sources, first_rows = np.empty(n_records, np.int64), np.empty(n_records, np.int64)
    pairs, groups = np.empty(n_records, np.int64), np.empty(n_records, np.int32)
    counts = np.empty(n_records, np.float64)
    n_sources = n_pairs = record = run = 0
    while record < len(records):
        while record >= run_ends[run]:
            run += 1
        slot = _source_slot(source_slots, sources, records, record)
        if source_slots[slot] == FREE:
            source_slots[slot] = n_sources
            sources[n_sources] = record
            first_rows[n_sources] = run_rows[run] + records[record]
            n_sources += 1
        group = source_slots[slot]
        slot = _pair_slot(pair_slots, pairs, groups, records, record, group)
        if pair_slots[slot] == FREE:
            pair_slots[slot] = n_pairs
            pairs[n_pairs], groups[n_pairs] = record, group
            n_pairs += 1
        counts[pair_slots[slot]] = joint_count_of(records, record)
        record += _length(records, record)
    order, n_targets = _grouped(groups[:n_pairs], n_sources)
    source_lens, all_source_words = _sides(records, sources[:n_sources], True)
    target_lens, all_target_words = _sides(records, pairs[order], False)
    return PairColumns(
        first_rows=first_rows[:n_sources],
        source_lens=source_lens,
        source_words=all_source_words,
        n_targets=n_targets,
        target_lens=target_lens,
        target_words=all_target_words,
        counts=counts[order],
    )


@inner
def _length(records: Any, record: int) -> int:
    return int(HEADER + source_words(records, record) + target_words(records, record))


@inner
def _part_of(records: Any, record: int) -> int:
    code = hash_words(records, record + HEADER, source_words(records, record))
    return int(np.int64(code >> np.uint64(64 - PART_BITS)))


@inner
def _n_records(records: Any) -> int:
    n_records = record = 0
    while record < len(records):
        record += _length(records, record)
        n_records += 1
    return n_records


@inner
def _source_slot(slots: Any, sources: Any, records: Any, record: int) -> int:
    """The slot of the source of a record, or the free one for it."""
    n_words = source_words(records, record)
    slot = slot_of(hash_words(records, record + HEADER, n_words), len(slots))
    while slots[slot] != FREE:
        other = sources[slots[slot]]
        if source_words(records, other) == n_words and _same(
            records, record + HEADER, other + HEADER, n_words
        ):
            return int(slot)
        slot = (slot + 1) & (len(slots) - 1)
    return int(slot)


@inner
def _pair_slot(slots: Any, pairs: Any, groups: Any, records: Any, record: int, group: int) -> int:
    """The slot of the pair of a record, or the free one for it."""
    n_words = target_words(records, record)
    first = record + HEADER + source_words(records, record)
    slot = slot_of(hash_next(hash_words(records, first, n_words), group), len(slots))
    while slots[slot] != FREE:
        pair = slots[slot]
        other = pairs[pair]
        if (
            groups[pair] == group
            and target_words(records, other) == n_words
            and _same(records, first, other + HEADER + source_words(records, other), n_words)
        ):
            return int(slot)
        slot = (slot + 1) & (len(slots) - 1)
    return int(slot)


@inner
def _same(records: Any, first: int, second: int, n_words: int) -> bool:
    for word in range(n_words):  # noqa: SIM110 (slow when compiled)
        if records[first + word] != records[second + word]:
            return False
    return True


@inner_maker
def _grouped(groups: Any, n_groups: int) -> Any:
    """The pairs group by group, in order of arrival, and the size of each group."""
    sizes = np.zeros(n_groups, np.uint32)
    for group in groups:
        sizes[group] += 1
    places = np.cumsum(sizes.astype(np.int64)) - sizes
    order = np.empty(len(groups), np.int64)
    for pair in range(len(groups)):
        order[places[groups[pair]]] = pair
        places[groups[pair]] += 1
    return order, sizes


@inner_maker
def _sides(records: Any, chosen: Any, is_source: bool) -> Any:
    lens = np.empty(len(chosen), np.uint16)
    n_words = 0
    for row in range(len(chosen)):
        record = chosen[row]
        lens[row] = source_words(records, record) if is_source else target_words(records, record)
        n_words += lens[row]
    words = np.empty(n_words, np.uint32)
    at = 0
    for row in range(len(chosen)):
        first = chosen[row] + HEADER
        if not is_source:
            first += source_words(records, chosen[row])
        for word in range(lens[row]):
            words[at] = records[first + word]
            at += 1
    return lens, words


class Part(NamedTuple):
    """The records of a part; see `distinct_pairs`."""

    records: NDArray[np.uint32]
    run_ends: NDArray[np.int64]
    run_rows: NDArray[np.int64]


class RecordSpill:
    """Records that come in the order of the table, into an empty file, and are read part by part.

    The buffer `records` and its `state` are written by `row_records.read_records`.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.records = np.empty(RUN_NUMBERS, np.uint32)
        self.state = np.zeros(2, np.int64)
        self._parted = np.empty(RUN_NUMBERS, np.uint32)
        self._file = file
        # Of each run the places of its parts in the file, in numbers, (N_PARTS + 1,), and its first row.
        self._bounds, self._first_rows = list[NDArray[np.int64]](), list[int]()
        self._first_row = self._n_written = 0

    @property
    def n_seen(self) -> int:
        """Rows of the table seen so far."""
        return self._first_row + int(self.state[N_SEEN])

    def make_room(self, n_numbers: int) -> None:
        """Make room in `records` for n_numbers more numbers; OSError if the disk is full."""
        if self.state[N_NUMBERS] + n_numbers > len(self.records) or self.state[N_SEEN] > MOST_ROWS:
            self.flush()
        if n_numbers > len(self.records):
            self.records, self._parted = (np.empty(n_numbers, np.uint32) for _ in range(2))

    def flush(self) -> None:
        """Write the content of `records`; OSError if the disk is full."""
        n_numbers = int(self.state[N_NUMBERS])
        bounds = partition(self.records, n_numbers, self._parted)
        self._file.write(self._parted[:n_numbers].data.cast("B"))
        self._file.flush()
        self._bounds.append(self._n_written + bounds)
        self._first_rows.append(self._first_row)
        self._n_written += n_numbers
        self._first_row = self.n_seen
        self.state[:] = 0

    def parts(self) -> list[int]:
        """Free the buffers, and return the numbers of the parts."""
        self.flush()
        self.records = self._parted = np.empty(0, np.uint32)
        return list(range(N_PARTS))

    def part(self, number: int) -> Part:
        """The records of a part, in the order of the table."""
        ends = [bounds[number : number + 2].tolist() for bounds in self._bounds]
        places = [(NUMBER_BYTES * (end - first), NUMBER_BYTES * first) for first, end in ends]
        file = self._file.fileno()
        pieces = [np.frombuffer(os.pread(file, *place), np.uint32) for place in places]
        return Part(
            np.concatenate(pieces),
            np.cumsum([len(piece) for piece in pieces]),
            np.array(self._first_rows, np.int64),
        )
