"""Numbers for phrases in table order, and their occurrences shard by shard in that order.

An external sort by distribution (see `sorted_runs`). All occurrences of a source phrase are in one shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import SpilledRows
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.builtin.extraction.aligned_corpus import Text
from moses_bridge.builtin.extraction.occurrences import Occurrences
from moses_bridge.builtin.sorted_runs import RegularSamples

BITS_OF_A_KEY = 63  # of an int64 that stays positive, so that keys sort as they should


class OccurrenceShards:
    """Takes occurrences in any order and returns them in shards of about `occurrences_at_once`.

    `rows` is an empty file for the runs. A shard is larger where the phrases sharing their first words
    (three in a vocabulary of up to two millions) occur more often, and by at most a 4096th for each run.
    """

    def __init__(
        self, source: Text, rows: SpilledRows[Occurrences], occurrences_at_once: int
    ) -> None:
        self._source = source
        self._rows = rows
        self._samples = RegularSamples(occurrences_at_once)

    def add(self, occurrences: Occurrences) -> None:
        """Sort a run and append it."""
        keys = self._keys(occurrences)
        order = np.argsort(keys)
        columns: Iterator[Any] = (column[order] for column in occurrences)
        self._rows.append(Occurrences(*columns))
        self._samples.add(keys[order])

    @property
    def n_occurrences(self) -> int:
        """Number of occurrences so far."""
        return self._rows.n_rows

    def __iter__(self) -> Iterator[Occurrences]:
        """Yield shards; no source phrase of one precedes any of an earlier one in the table."""
        for slices in self._samples.shards(lambda *rows: self._keys(self._rows.read(*rows))):
            parts = [self._rows.read(first, end) for first, end in slices]
            yield Occurrences(*map(np.concatenate, zip(*parts, strict=True)))

    def _keys(self, occurrences: Occurrences) -> NDArray[np.int64]:
        return leading_words(self._source, occurrences.source_starts, occurrences.source_lens)


def number_phrases(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8]
) -> NDArray[np.int32]:
    """(n,) ranks, from 0 on, of the phrases beginning at `starts` (n,) with `lens` (n,) words.

    Equal phrases have equal ranks, in the order of `LC_ALL=C sort` on lines with ` ||| ` after the phrase.
    """
    step = _words_of_a_key(text)
    firsts = range(0, int(lens.max(initial=0)) + 1, step)
    keys = [leading_words(text, starts, lens, first) for first in reversed(firsts)]
    order = np.lexsort(keys)
    differs = np.zeros(len(order), np.bool_)
    for key in keys:
        in_order = key[order]
        differs[1:] |= in_order[1:] != in_order[:-1]
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.cumsum(differs)
    return ranks


def leading_words(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8], first: int = 0
) -> NDArray[np.int64]:
    """(n,) numbers ascending in the same order, equal for equal words from number `first` on.

    They hold as many words as fit in 63 bits, including the bar after a shorter phrase.
    """
    bits, n_words = len(text.vocabulary).bit_length(), _words_of_a_key(text)
    return np.asarray(_pack(text.words, text.bar, starts, lens, first, first + n_words, bits))


def _words_of_a_key(text: Text) -> int:
    return BITS_OF_A_KEY // len(text.vocabulary).bit_length()


@njit(nogil=True)
def _pack(words: Any, bar: int, starts: Any, lens: Any, first: int, end: int, bits: int) -> Any:
    """Pack words into keys, with the bar right after a phrase and 0 after that."""
    keys = np.zeros(len(starts), np.int64)
    for row in range(len(starts)):
        for i in range(first, end):
            word = 0
            if i < lens[row]:
                word = words[starts[row] + i]
            elif i == lens[row]:
                word = bar
            keys[row] = keys[row] << bits | word
    return keys
