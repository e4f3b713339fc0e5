"""The fields of a line of an n-best list, found by compiled code; `nbest` is the plain path.

It reads lines as Moses prints them: whole numbers in digits, one blank or more between tokens, a total that can
be rounded exactly. Any other line, faulty or not, is left to the caller.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from moses_bridge.base.compiled.bytes_by_name import BAR, BLANK, MINUS
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.number_reader import (
    NO_NUMBER,
    is_exact,
    read_number,
    read_whole,
    value_of,
)
from moses_bridge.base.compiled.scanning import next_token

BAR_LENGTH = 3
EQUALS, AMPERSAND = ord("="), ord("&")
ESCAPED_BAR = np.frombuffer(b"&#124;&#124;&#124;", np.uint8)  # written by `nbest.escape_bars`
NOT_PLAIN = NO_NUMBER


class EntryFields(NamedTuple):
    """The positions of the fields of a line.

    Attributes:
        sentence_id: NOT_PLAIN if the line must be read by `nbest.parse_entry`.
        words, words_end: beginning and end of the words, blanks included.
        total: weighted sum of the features.
        rest: beginning of the further fields; the end of the line if there are none.
    """

    sentence_id: int
    words: int
    words_end: int
    total: float
    rest: int


@inner
def find_fields(text: Any, start: int, end: int) -> EntryFields:
    """Find the fields of the line text[start:end]."""
    number_end = _field_end(text, start, end)
    words = min(number_end + BAR_LENGTH, end)
    words_end = _field_end(text, words, end)
    features = min(words_end + BAR_LENGTH, end)
    features_end = _field_end(text, features, end)
    total = min(features_end + BAR_LENGTH, end)
    total_end = _field_end(text, total, end)
    sentence_id = whole_number(text, start, number_end)
    first, last = without_blanks(text, total, total_end)
    number = read_number(text, first, last)
    if features_end == end or number.end != last or not is_exact(number):
        return EntryFields(NOT_PLAIN, 0, 0, 0.0, end)
    rest = min(total_end + BAR_LENGTH, end)
    return EntryFields(sentence_id, words, words_end, value_of(number), rest)


@inner
def read_segmentation(text: Any, start: int, end: int, n_words: int, segments: Any) -> int:
    """Read the phrase pairs of an entry from its first further field; see `nbest.parse_segmentation`.

    Args:
        text: the line and others.
        start: beginning of the further fields.
        end: end of the line.
        n_words: number of words of the hypothesis.
        segments: filled with the fields of `nbest.Segment`, int64, *Shape:* (at least n_segments, 4).

    Returns:
        The number of phrase pairs; NOT_PLAIN if there are none or the plain path must read them.
    """
    n_segments = last_place = 0
    token, at = next_token(text, start, end)
    while token < at and not _is_bar(text, token, at, end):
        first, after = read_whole(text, token, at)
        last = first
        if after < at and text[after] == MINUS:
            last, after = read_whole(text, after + 1, at)
        if first == NOT_PLAIN or last == NOT_PLAIN or after >= at or text[after] != EQUALS:
            return NOT_PLAIN
        place, after = read_whole(text, after + 1, at)
        if after < at and text[after] == MINUS:
            place_end, after = read_whole(text, after + 1, at)
            place = NOT_PLAIN if place_end == NOT_PLAIN else place
        if place < last_place or after != at or (n_segments == 0 and place > 0):
            return NOT_PLAIN
        if n_segments > 0:
            segments[n_segments - 1, 3] = place
        segments[n_segments, 0], segments[n_segments, 1] = first, last + 1
        segments[n_segments, 2] = last_place = place
        n_segments += 1
        token, at = next_token(text, at, end)
    if n_segments == 0 or last_place > n_words:
        return NOT_PLAIN
    segments[n_segments - 1, 3] = n_words
    return n_segments


@inner
def has_escaped_bar(text: Any, start: int, end: int) -> bool:
    """Whether text[start:end] contains three escaped bars."""
    for first in range(start, end - len(ESCAPED_BAR) + 1):
        if text[first] == AMPERSAND:
            n_same = 0
            while n_same < len(ESCAPED_BAR) and text[first + n_same] == ESCAPED_BAR[n_same]:
                n_same += 1
            if n_same == len(ESCAPED_BAR):
                return True
    return False


@inner
def _field_end(text: Any, at: int, end: int) -> int:
    """The end of the field: the next three bars, or the end of the line."""
    while at + BAR_LENGTH <= end:
        if text[at] == BAR and text[at + 1] == BAR and text[at + 2] == BAR:
            return at
        at += 1
    return end


@inner
def _is_bar(text: Any, token: int, token_end: int, end: int) -> bool:
    """Whether a token is three bars between blanks, which end a field."""
    is_bar = token_end - token == BAR_LENGTH and _field_end(text, token, token_end) == token
    return is_bar and text[token - 1] == BLANK and token_end < end and text[token_end] == BLANK


@inner
def without_blanks(text: Any, start: int, end: int) -> tuple[int, int]:
    """The beginning and end of text[start:end] without surrounding blanks."""
    while start < end and text[start] == BLANK:
        start += 1
    while end > start and text[end - 1] == BLANK:
        end -= 1
    return start, end


@inner
def whole_number(text: Any, start: int, end: int) -> int:
    """The number between blanks; NOT_PLAIN if there is anything but digits."""
    first, last = without_blanks(text, start, end)
    number, after = read_whole(text, first, last)
    return number if after == last else NOT_PLAIN
