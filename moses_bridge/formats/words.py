"""The words of a line as separated by Moses, the numbers among them, and the escapes of its tokenizer."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLANKS_OF_C_ALONE = b"\x0b\x0c\r"
# float() accepts these, as a separator and as blanks; C does not.
NOT_IN_NUMBERS = b"_" + _BLANKS_OF_C_ALONE
ESCAPES = {
    **{"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"},
    **{"&#124;": "|", "&#91;": "[", "&#93;": "]"},
}
_ESCAPE = re.compile("|".join(ESCAPES))


def split_words(line: bytes) -> list[bytes]:
    """Split at blanks and tabs (moses/Phrase.cpp:171); any other byte is part of a word."""
    # bytes.split() is quicker, but splits at three more bytes, blanks in C.
    if len(line.translate(None, _BLANKS_OF_C_ALONE)) == len(line):
        return line.split()
    return [word for word in line.replace(b"\t", b" ").split(b" ") if word]


def split_phrases(phrases: Sequence[bytes]) -> tuple[list[bytes], NDArray[np.int64]]:
    """The words of all phrases, one after another, and the number of words of each, *Shape:* (n_phrases,)."""
    import numpy as np  # commands that only list their options have no phrases

    text = b" ".join([*phrases, b""])
    if len(text.translate(None, _BLANKS_OF_C_ALONE)) != len(text):
        split = [split_words(phrase) for phrase in phrases]
        return list(itertools.chain.from_iterable(split)), np.array([*map(len, split)], np.int64)
    # A word begins after a blank; each phrase is followed by one.
    characters = np.frombuffer(b" " + text, np.uint8)
    blank = (characters == 32) | (characters == 9) | (characters == 10)
    n_begun = np.cumsum(np.concatenate([[0], blank[:-1] & ~blank[1:]]))
    ends = np.cumsum(np.fromiter(map(len, phrases), np.int64, len(phrases)) + 1)
    return text.split(), np.diff(n_begun[ends], prepend=0)


def turned_words(line: bytes) -> bytes:
    """The words of a line from the last one to the first."""
    return b" ".join(split_words(line)[::-1])


def to_number(token: bytes) -> float:
    """Parse a number, NaN if it is malformed (float() accepts "1_0" and control characters)."""
    if len(token.translate(None, NOT_IN_NUMBERS)) < len(token):
        return math.nan
    try:
        return float(token)
    except ValueError:
        return math.nan


def without_escapes(text: str) -> str:
    """Replace the escapes of the Moses tokenizer, say `&apos;` by `'`; no escape contains a blank."""
    return _ESCAPE.sub(lambda escape: ESCAPES[escape[0]], text)


def as_text(words: bytes) -> str:
    """Decode UTF-8, replacing any other byte by U+FFFD."""
    return words.decode("utf-8", "replace")


def readable(words: bytes) -> str:
    """Decode words for display, without Moses's escapes, in one line without invisible characters.

    Control characters and those changing the direction of writing become U+FFFD.
    """
    text = without_escapes(as_text(words))
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
