"""Numbers for phrases such that their order is the order of a sorted table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.aligned_corpus import Text

BITS_OF_A_KEY = 63


@dataclass(frozen=True)
class PhraseNumbers:
    """The distinct phrases of one side.

    Attributes:
        of_occurrences: (n,) number of each occurrence's phrase: its rank in C order.
        starts, lens: (n_phrases,) where a phrase stands in the running text, and its words.
    """

    of_occurrences: NDArray[np.int32]
    starts: NDArray[np.int32]
    lens: NDArray[np.uint8]


def number_phrases(text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8]) -> PhraseNumbers:
    """Number the phrases that begin at `starts` and have `lens` words.

    The order is that of `LC_ALL=C sort` on lines that go on with ` ||| ` behind the phrase.
    """
    numbers, first = _equal_phrases(text, starts, lens)
    order = np.lexsort(_sort_keys(text, starts[first], lens[first]))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    chosen = first[order]
    return PhraseNumbers(rank[numbers], starts[chosen], lens[chosen])


def _equal_phrases(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """A number for each occurrence, equal for equal phrases, and the first occurrence of each."""
    numbers = np.empty(len(starts), np.int32)
    first: list[NDArray[np.int64]] = []
    n_phrases = 0
    prefixes = np.zeros(len(text.words), np.int64)
    for length in range(1, int(lens.max(initial=0)) + 1):
        prefixes = _longer_prefixes(text, prefixes, length)
        rows = np.flatnonzero(lens == length)
        _, places, inverse = np.unique(
            prefixes[starts[rows]], return_index=True, return_inverse=True
        )
        numbers[rows] = inverse + n_phrases
        first.append(rows[places])
        n_phrases += len(places)
    return numbers, np.concatenate([np.empty(0, np.int64), *first])


def _longer_prefixes(text: Text, prefixes: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Dense numbers of the `length` words from each position, from those of one word fewer."""
    n = len(prefixes)
    last_words = np.full(n, len(text.vocabulary), np.int64)
    last_words[: n - length + 1] = text.words[length - 1 :]
    keys = prefixes * (len(text.vocabulary) + 1) + last_words
    longer: NDArray[np.int64] = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    return longer


def _sort_keys(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8]
) -> list[NDArray[np.int64]]:
    """Words of each phrase and the bar behind them, packed; the last key is the primary one."""
    bits = len(text.vocabulary).bit_length()
    words_of_a_key = BITS_OF_A_KEY // bits
    keys = []
    for first in range(0, int(lens.max(initial=0)) + 1, words_of_a_key):
        key = np.zeros(len(starts), np.int64)
        for i in range(first, first + words_of_a_key):
            key = (key << bits) | _words_at(text, starts, lens, i)
        keys.append(key)
    return keys[::-1]


def _words_at(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8], i: int
) -> NDArray[np.int64]:
    """Word i of each phrase, the bar just behind its end, 0 further on."""
    words = np.zeros(len(starts), np.int64)
    inside = lens > i
    words[inside] = text.words[starts[inside] + i]
    words[lens == i] = text.bar
    return words
