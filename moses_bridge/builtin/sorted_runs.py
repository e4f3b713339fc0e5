"""External sorts by distribution: where to cut sorted runs, and the sort of distinct keys with their counts.

Sorted runs are in files, each with a regular sample of its keys; the samples of all runs determine where to
cut them (Shi and Schaeffer, Parallel sorting by regular sampling, 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFiles, numbers_below

SAMPLES_OF_A_SHARD = 1 << 12  # a run puts at most a 4096th of a shard too much into it


class CountedKeys(NamedTuple):
    """Distinct keys (n,), ascending, with a non-negative value and the number of occurrences of each, (n,)."""

    keys: NDArray[np.int64]
    values: NDArray[Any]
    counts: NDArray[Any]


def counted(
    keys: NDArray[np.int64], values: NDArray[Any], counts: NDArray[Any] | None
) -> tuple[CountedKeys, NDArray[np.int64]]:
    """Join equal keys and sum their counts.

    Args:
        keys: (n,) in any order.
        values: (n,) the same for equal keys.
        counts: (n,) the counts, or None for 1 each.

    Returns:
        The distinct keys, and the index of each key among them, (n,).
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


class RegularSamples:
    """Samples of sorted runs, which cut them into shards of about `at_once` keys.

    Attributes:
        ends: the end of each run among all keys, after a 0.
    """

    def __init__(self, at_once: int) -> None:
        self.ends = [0]
        self._stride = max(1, at_once // SAMPLES_OF_A_SHARD)
        self._samples_of_a_shard = max(1, at_once // self._stride)
        self._samples = [np.empty(0, np.int64)]

    def add(self, keys: NDArray[np.int64]) -> None:
        """Add a run, given its keys in ascending order, (n,)."""
        self._samples.append(keys[:: self._stride].copy())
        self.ends.append(self.ends[-1] + len(keys))

    def shards(
        self, keys_of: Callable[[int, int], NDArray[np.int64]]
    ) -> Iterator[list[tuple[int, int]]]:
        """Yield for each shard its first key and its end in each run; no shards without runs.

        keys_of returns the keys from a place to before another, (n,), and equal keys are in one shard.
        """
        samples = np.sort(np.concatenate(self._samples))
        bounds = np.unique(samples[self._samples_of_a_shard :: self._samples_of_a_shard])
        cuts = [
            [first, *(first + np.searchsorted(keys_of(first, end), bounds)).tolist(), end]
            for first, end in pairwise(self.ends)
        ]
        for slices in zip(*map(pairwise, cuts), strict=True):
            yield list(slices)


class SortedRuns:
    """Merges sorted runs and numbers their keys.

    `limit` bounds the values, the counts and the number of keys; about `at_once` keys are merged at a time.
    """

    def __init__(self, files: ArrayFiles, limit: int, at_once: int) -> None:
        self._keys = files.new(np.int64)
        self._values, self._counts = numbers_below(limit, files), numbers_below(limit, files)
        self._numbers = numbers_below(limit, files)
        self._samples = RegularSamples(at_once)

    def add(self, run: CountedKeys) -> None:
        """Add a run."""
        self._keys.append(run.keys)
        self._values.append(run.values)
        self._counts.append(run.counts)
        self._samples.add(run.keys)

    def merged(self) -> Iterator[CountedKeys]:
        """Yield all distinct keys in ascending order, part by part."""
        n_before = 0
        for slices in self._samples.shards(self._keys.read):
            columns = self._keys, self._values, self._counts
            distinct = CountedKeys(
                *(np.concatenate([column.read(*place) for place in slices]) for column in columns)
            )
            places = np.arange(len(distinct.keys))
            if len(slices) > 1:
                distinct, places = counted(*distinct)
            self._put_numbers(slices, n_before + places)
            n_before += len(distinct.keys)
            yield distinct

    def numbers_of_run(self, run: int) -> NDArray[Any]:
        """The number of each key of a run among all distinct keys, (n,), after `merged` is exhausted."""
        return self._numbers.read(self._samples.ends[run], self._samples.ends[run + 1])

    def _put_numbers(self, slices: list[tuple[int, int]], numbers: NDArray[np.int64]) -> None:
        done = 0
        for first, end in slices:
            self._numbers.write(first, numbers[done : done + end - first])
            done += end - first
