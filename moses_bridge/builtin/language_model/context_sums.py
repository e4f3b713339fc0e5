"""Sums over the n-grams sharing a context, for more contexts than fit in memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, ArrayFiles, parts


class Shares(NamedTuple):
    """Contributions of n-grams to the sums of their contexts, (n,) each."""

    contexts: NDArray[Any]
    counts: NDArray[Any]  # adjusted ones
    freed: NDArray[np.float64]  # the part of the count given to the lower order


class ContextSums:
    """Sums of contexts in order of arrival: in memory if there are at most `at_once`, else in mapped files."""

    def __init__(self, n_contexts: int, files: ArrayFiles, at_once: int) -> None:
        self._totals, self._freed = (_zeros(n_contexts, files, at_once) for _ in range(2))

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

    def of_ngrams(self, contexts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Total and share of the contexts of n-grams, (n,) each."""
        return self._totals[contexts], self._freed[contexts]


def _zeros(length: int, files: ArrayFiles, at_once: int) -> NDArray[np.float64]:
    if length <= at_once:
        return np.zeros(length)
    array = files.new(np.float64)
    for first, end in parts(length, at_once):
        array.append(np.zeros(end - first))  # room on the disk, which a longer file alone lacks
    return array.mapped()
