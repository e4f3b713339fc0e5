"""Numbers for phrases, in the order of a sorted table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.extraction.aligned_corpus import Text
from moses_bridge.compiled.kept_code import njit

BITS_OF_A_KEY = 63  # of an int64 that stays positive, so that keys sort as they should


def number_phrases(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8]
) -> NDArray[np.int32]:
    """(n,) ranks, from 0 on, of the phrases beginning at `starts` (n,) with `lens` (n,) words.

    Equal phrases have equal ranks. The order is that of `LC_ALL=C sort` on lines with ` ||| `
    behind the phrase.
    """
    step = _words_of_a_key(text)
    firsts = range(0, int(lens.max(initial=0)) + 1, step)
    keys = [_packed_words(text, starts, lens, first) for first in reversed(firsts)]
    order = np.lexsort(keys)
    differs = np.zeros(len(order), np.bool_)
    for key in keys:
        in_order = key[order]
        differs[1:] |= in_order[1:] != in_order[:-1]
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.cumsum(differs)
    return ranks


def leading_words(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """(n,) numbers ascending in the same order, equal where the first words are the same.

    As many words as go into 63 bits, the bar behind a shorter phrase included.
    """
    return _packed_words(text, starts, lens, 0)


def _words_of_a_key(text: Text) -> int:
    return BITS_OF_A_KEY // _bits_of_a_word(text)


def _bits_of_a_word(text: Text) -> int:
    return len(text.vocabulary).bit_length()


def _packed_words(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8], first: int
) -> NDArray[np.int64]:
    """Words from number `first` of each phrase, as many as go into a key, the first one highest."""
    bits, n_words = _bits_of_a_word(text), _words_of_a_key(text)
    return np.asarray(_pack(text.words, text.bar, starts, lens, first, first + n_words, bits))


@njit(nogil=True)
def _pack(words: Any, bar: int, starts: Any, lens: Any, first: int, end: int, bits: int) -> Any:
    """The bar is just behind a phrase, 0 further on."""
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
