"""The words of many phrases as numbers, in compiled code that other threads need not wait for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import BLANK, NEWLINE, TAB
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.lexicon import LexiconTables, find_word


def word_numbers(
    phrases: Sequence[bytes], words: LexiconTables
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Numbers of all words, -1 if unknown, and the number of words of each phrase, *Shape:* (n_phrases,).

    Words are split as by `formats.words.split_phrases`.
    """
    data = np.frombuffer(b" ".join([*phrases, b""]), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, phrases), np.int64, len(phrases)) + 1)
    numbers, lens = np.empty(len(data) // 2 + 1, np.int32), np.zeros(len(phrases), np.int64)
    n_words = _number(data, ends, words, numbers, lens)
    return numbers[:n_words], lens


@njit(nogil=True)
def _number(
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    words: LexiconTables,
    numbers: NDArray[np.int32],
    lens: NDArray[np.int64],
) -> int:
    """Write the numbers of all words, each followed by a blank, and return how many there are."""
    n_words = phrase = start = 0
    for place in range(len(data)):
        byte = data[place]
        if byte == BLANK or byte == TAB or byte == NEWLINE:  # noqa: SIM109 (slow when compiled)
            while place >= ends[phrase]:
                phrase += 1
            if place > start:
                numbers[n_words] = find_word(words, data, start, place)
                n_words += 1
                lens[phrase] += 1
            start = place + 1
    return n_words
