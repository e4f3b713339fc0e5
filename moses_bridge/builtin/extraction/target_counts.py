"""How often each target phrase occurs in phrase pairs of the whole corpus."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.extraction.aligned_corpus import Text
from moses_bridge.builtin.extraction.occurrences import MAX_WORDS, Occurrences


class TargetCounts:
    """Counts occurrences part by part; afterwards tells the total of any phrase by its place.

    Memory is 7 bytes a target word while it counts (a place of the text is in at most 28 phrase
    pairs), 28 more afterwards, whatever the number of phrase pairs.

    Args:
        target: the target text.
    """

    def __init__(self, target: Text) -> None:
        self._target = target
        self._here = np.zeros((len(target.words), MAX_WORDS), np.uint8)

    def add(self, occurrences: Occurrences) -> None:
        """Count occurrences of sentences that have not been counted yet."""
        if len(occurrences.target_starts) == 0:
            return
        first = int(occurrences.target_starts.min())
        places = (occurrences.target_starts - first) * MAX_WORDS + occurrences.target_lens - 1
        here = self._here[first:].reshape(-1)
        counts = np.bincount(places)
        here[: len(counts)] += counts.astype(np.uint8)

    def finish(self) -> NDArray[np.int32]:
        """(n_words, 7) occurrences in the whole corpus of the phrase of 1 to 7 words from each word.

        0 where no phrase pair was found.
        """
        totals = np.zeros(self._here.shape, np.int32)
        numbers = np.zeros(len(totals), np.int32)
        for i in range(min(MAX_WORDS, len(totals))):
            keys = _keys(self._target, numbers, i)
            _add_equal(keys, np.argsort(keys), self._here[:, i], numbers, totals[:, i])
        return totals


def _keys(text: Text, numbers: NDArray[np.int32], n_words: int) -> NDArray[np.int64]:
    """(n,) numbers of the `n_words` + 1 words from each word, given those of `n_words` words."""
    keys = numbers.astype(np.int64) * (len(text.vocabulary) + 1)
    n = len(keys) - n_words
    keys[:n] += text.words[n_words:]
    keys[n:] += len(text.vocabulary)
    return keys


@njit(cache=True, nogil=True)
def _add_equal(keys: Any, order: Any, here: Any, numbers: Any, totals: Any) -> None:
    """For places with equal keys put one number into `numbers`, the sum of `here` into `totals`."""
    begin = number = total = 0
    for end in range(len(order) + 1):
        if end == len(order) or keys[order[end]] != keys[order[begin]]:
            for i in range(begin, end):
                numbers[order[i]], totals[order[i]] = number, total
            begin, number, total = end, number + 1, 0
        if end < len(order):
            total += here[order[end]]
