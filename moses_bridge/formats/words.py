"""The words of a line as Moses separates them, and the numbers among them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BLANKS_OF_C_ALONE = b"\x0b\x0c\r"
# float() takes these, as a separator and as blanks; C does not.
NOT_IN_NUMBERS = b"_" + _BLANKS_OF_C_ALONE


def split_words(line: bytes) -> list[bytes]:
    """The text between blanks and tabs (moses/Phrase.cpp:171); any other byte is part of a word."""
    # bytes.split() is quicker than the rest, but splits at three more bytes, blanks in C.
    if len(line.translate(None, _BLANKS_OF_C_ALONE)) == len(line):
        return line.split()
    return [word for word in line.replace(b"\t", b" ").split(b" ") if word]


def split_phrases(phrases: Sequence[bytes]) -> tuple[list[bytes], NDArray[np.int64]]:
    """The words of many phrases, one after another, and how many each has, *Shape:* (n_phrases,)."""
    text = b" ".join([*phrases, b""])
    if len(text.translate(None, _BLANKS_OF_C_ALONE)) != len(text):
        split = [split_words(phrase) for phrase in phrases]
        return list(itertools.chain.from_iterable(split)), np.array([*map(len, split)], np.int64)
    # A word begins behind a blank; each phrase has one behind it.
    characters = np.frombuffer(b" " + text, np.uint8)
    blank = (characters == 32) | (characters == 9) | (characters == 10)
    n_begun = np.cumsum(np.concatenate([[0], blank[:-1] & ~blank[1:]]))
    ends = np.cumsum(np.fromiter(map(len, phrases), np.int64, len(phrases)) + 1)
    return text.split(), np.diff(n_begun[ends], prepend=0)


def turned_words(line: bytes) -> bytes:
    """The words of a line from the last one to the first."""
    return b" ".join(split_words(line)[::-1])


def to_number(token: bytes) -> float:
    """The number written in a text, NaN if it is none (float() takes "1_0" and control characters)."""
    if len(token.translate(None, NOT_IN_NUMBERS)) < len(token):
        return math.nan
    try:
        return float(token)
    except ValueError:
        return math.nan
