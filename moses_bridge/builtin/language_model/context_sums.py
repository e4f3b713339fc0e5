"""Sums over the n-grams sharing a context, for more contexts than fit in memory.

N-grams are sorted by their last words, so those of a context are far apart. They are distributed to parts
of the contexts, each fitting in memory. The sums of each part are then collected in the first order again,
without any comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, ArrayFiles, numbers_below, parts

COUNTED_SORT = 1 << 16  # numbers below it are sorted by counting


class Shares(NamedTuple):
    """Contributions of n-grams to the sums of their contexts, (n,) each."""

    contexts: NDArray[Any]
    counts: NDArray[Any]  # adjusted ones
    freed: NDArray[np.float64]  # the part of the count given to the lower order


def context_sums(
    n_contexts: int, files: ArrayFiles, at_once: int
) -> SumsInMemory | DistributedSums:
    """Sums in memory if the contexts fit, 24 bytes each, else in files, 36 bytes an n-gram."""
    if n_contexts <= at_once:
        return SumsInMemory(n_contexts)
    return DistributedSums(n_contexts, files, at_once)


class SumsInMemory:
    """Sums of contexts that all fit in memory, in order of arrival."""

    def __init__(self, n_contexts: int) -> None:
        self._totals, self._freed = np.zeros(n_contexts), np.zeros(n_contexts)

    def add(self, shares: Shares) -> None:
        """Take some n-grams."""
        # numpy adds up numbers of one kind ten times as fast as of two
        np.add.at(self._totals, shares.contexts, shares.counts.astype(np.float64))
        np.add.at(self._freed, shares.contexts, shares.freed)

    def finish(self, of_contexts: ArrayFile[np.float64]) -> None:
        """Sum, and append each context's share given to the lower order; NaN for no n-gram."""
        with np.errstate(invalid="ignore"):
            self._freed /= self._totals
        of_contexts.append(self._freed)

    def of_ngrams(
        self, number: int, contexts: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Total and share of the contexts of the n-grams of addition `number`, counted from 0."""
        return self._totals[contexts], self._freed[contexts]


class DistributedSums:
    """Sums of contexts with one part in memory at a time."""

    def __init__(self, n_contexts: int, files: ArrayFiles, at_once: int) -> None:
        self._n_contexts = n_contexts
        self._at_once = at_once
        self._n_parts = -(-n_contexts // at_once)
        self._contexts = numbers_below(at_once, files)  # places within their part
        self._counts, self._freed = files.new(np.int64), files.new(np.float64)
        self._totals, self._weights = files.new(np.float64), files.new(np.float64)
        self._cuts: list[NDArray[np.int64]] = []

    def add(self, shares: Shares) -> None:
        """See `SumsInMemory`; n-grams are sorted by the part of their contexts."""
        parts_of = shares.contexts // self._at_once
        order = self._order(parts_of)
        sizes = np.bincount(parts_of, minlength=self._n_parts)
        self._cuts.append(len(self._contexts) + np.concatenate(([0], np.cumsum(sizes))))
        self._contexts.append((shares.contexts % self._at_once)[order])
        self._counts.append(shares.counts[order])
        self._freed.append(shares.freed[order])

    def finish(self, of_contexts: ArrayFile[np.float64]) -> None:
        """See `SumsInMemory`."""
        for part, (first, end) in enumerate(parts(self._n_contexts, self._at_once)):
            sums = SumsInMemory(end - first)
            for place in self._places(part):
                contexts, counts = self._contexts.read(*place), self._counts.read(*place)
                sums.add(Shares(contexts, counts, self._freed.read(*place)))
            sums.finish(of_contexts)
            for number, place in enumerate(self._places(part)):
                totals, weights = sums.of_ngrams(number, self._contexts.read(*place))
                self._totals.write(place[0], totals)
                self._weights.write(place[0], weights)

    def of_ngrams(
        self, number: int, contexts: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `SumsInMemory`."""
        order = self._order(contexts // self._at_once)
        first, end = int(self._cuts[number][0]), int(self._cuts[number][-1])
        totals, weights = np.empty(end - first), np.empty(end - first)
        totals[order] = self._totals.read(first, end)
        weights[order] = self._weights.read(first, end)
        return totals, weights

    def _order(self, parts_of: NDArray[Any]) -> NDArray[np.int64]:
        """Group n-grams by part, in order of arrival: the sum of floats depends on it."""
        numbers = parts_of.astype(np.uint16) if self._n_parts <= COUNTED_SORT else parts_of
        return np.argsort(numbers, kind="stable")

    def _places(self, part: int) -> Iterator[tuple[int, int]]:
        """Start and end of a part's n-grams in each addition, in order."""
        for cut in self._cuts:
            yield int(cut[part]), int(cut[part + 1])
