"""Words and whole numbers written by compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import ZERO
from moses_bridge.base.compiled.inner import inner


class PackedWords(NamedTuple):
    """All words in one byte array: word i is text[starts[i]:starts[i + 1]]."""

    text: NDArray[np.uint8]
    starts: NDArray[np.int64]


def pack_words(words: list[bytes]) -> PackedWords:
    """Lay words out for compiled code."""
    text = np.frombuffer(b"".join(words), np.uint8)
    return PackedWords(text, np.cumsum([0, *map(len, words)], dtype=np.int64))


@inner
def put_word(out: Any, end: int, words: PackedWords, word: int) -> int:
    """Write a word and return the new end."""
    for i in range(words.starts[word], words.starts[word + 1]):
        out[end] = words.text[i]
        end += 1
    return end


@inner
def put_count(out: Any, end: int, count: int) -> int:
    """Write a non-negative whole number and return the new end."""
    divisor = 1
    while divisor * 10 <= count:
        divisor *= 10
    while divisor > 0:
        out[end] = ZERO + count // divisor % 10
        end += 1
        divisor //= 10
    return end
