"""Distinct keys and their counts, sorted in files: an external sort.

It sorts by distribution: sorted runs in files, each with a regular sample of its keys; the samples of all
runs say where to cut them (Shi and Schaeffer, Parallel sorting by regular sampling, 1992).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFiles, Numbers, numbers_below

SAMPLES_OF_A_SHARD = 1 << 12  # a run puts at most a 4096th too much into a shard


class CountedKeys(NamedTuple):
    """Keys, each once.

    Attributes:
        keys: (n,) int64, ascending.
        values: (n,) a number of at least 0 that goes with each key.
        counts: (n,) occurrences.
    """

    keys: NDArray[np.int64]
    values: NDArray[Any]
    counts: NDArray[Any]


def counted(
    keys: NDArray[np.int64], values: NDArray[Any], counts: NDArray[Any] | None
) -> tuple[CountedKeys, NDArray[np.int64]]:
    """Bring equal keys together; the distinct ones, and the place of each key among them.

    Args:
        keys: (n,) in any order.
        values: (n,) the same for equal keys.
        counts: (n,) what is summed up, or None for 1 each.
    """
    order = np.argsort(keys)
    in_order = keys[order]
    is_first = np.ones(len(keys), np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    begins = np.flatnonzero(is_first)
    places = np.empty(len(keys), np.int64)
    places[order] = np.cumsum(is_first) - 1
    if counts is None:
        totals = np.diff(begins, append=len(keys))
    else:
        totals = np.add.reduceat(counts[order], begins) if len(keys) else counts
    return CountedKeys(in_order[begins], values[order[begins]], totals), places


class SortedRuns:
    """Takes sorted runs and gives them back as one, with the number of each key in it.

    Args:
        files: where the runs are written.
        limit: above all values and counts, and the number of keys.
        at_once: rough number of keys merged at a time.
    """

    def __init__(self, files: ArrayFiles, limit: int, at_once: int) -> None:
        self._keys = files.new(np.int64)
        self._values, self._counts = numbers_below(limit, files), numbers_below(limit, files)
        self._numbers = numbers_below(limit, files)
        self._stride = max(1, at_once // SAMPLES_OF_A_SHARD)
        self._samples_of_a_shard = max(1, at_once // self._stride)
        self._samples = [np.empty(0, np.int64)]
        self._ends = [0]

    def add(self, run: CountedKeys) -> None:
        """Write a run behind the others."""
        self._keys.append(run.keys)
        self._values.append(run.values)
        self._counts.append(run.counts)
        self._samples.append(run.keys[:: self._stride].copy())
        self._ends.append(len(self._keys))

    def merged(self) -> Iterator[CountedKeys]:
        """All keys in order, part by part."""
        samples = np.sort(np.concatenate(self._samples))
        bounds = np.unique(samples[self._samples_of_a_shard :: self._samples_of_a_shard])
        cuts = [self._cuts(first, end, bounds) for first, end in pairwise(self._ends)]
        n_before = 0
        for shard in range(len(bounds) + 1 if cuts else 0):
            slices = [(int(cut[shard]), int(cut[shard + 1])) for cut in cuts]
            columns = self._keys, self._values, self._counts
            distinct = CountedKeys(*(_gathered(column, slices) for column in columns))
            places = np.arange(len(distinct.keys))
            if len(cuts) > 1:
                distinct, places = counted(*distinct)
            self._put_numbers(slices, n_before + places)
            n_before += len(distinct.keys)
            yield distinct

    def numbers_of_run(self, run: int) -> NDArray[Any]:
        """The number of each key of a run among all keys, once `merged` is exhausted."""
        return self._numbers.read(self._ends[run], self._ends[run + 1])

    def _cuts(self, first: int, end: int, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n_shards + 1,) where the n-grams of each shard begin in one run, and where the run ends."""
        keys = self._keys.read(first, end)
        return np.concatenate(([first], first + np.searchsorted(keys, bounds), [end]))

    def _put_numbers(self, slices: list[tuple[int, int]], numbers: NDArray[np.int64]) -> None:
        done = 0
        for first, end in slices:
            self._numbers.write(first, numbers[done : done + end - first])
            done += end - first


def _gathered(column: Numbers, slices: list[tuple[int, int]]) -> NDArray[Any]:
    return np.concatenate([column.read(first, end) for first, end in slices])
