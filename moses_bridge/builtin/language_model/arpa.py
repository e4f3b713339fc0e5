"""ARPA files as arrays: n-grams of word numbers, log10 probabilities and back-offs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge import textio
from moses_bridge.errors import InputError

COUNT_LINE = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)\s*")
MAX_ORDER = 16
GOOD, BAD_NUMBER, TOO_FEW_WORDS, UNKNOWN_WORD, POSITIVE, TRAILING, DUPLICATE, SHORT = range(8)
EXPECTATIONS = {
    BAD_NUMBER: "a number (log10 probability, words, log10 back-off)",
    TOO_FEW_WORDS: "an n-gram of the section's order",
    UNKNOWN_WORD: "words that stand in the 1-gram section",
    POSITIVE: "a log10 probability of at most 0",
    TRAILING: "nothing after the back-off",
    DUPLICATE: "each word once in the 1-gram section",
    SHORT: "as many n-grams as the header announces",
}


@dataclass(frozen=True)
class NGrams:
    """The n-grams of one order, in the order of the file.

    Attributes:
        ids: (n, order) int32, word numbers in text order.
        log_probs: (n,) float32, log10.
        backoffs: (n,) float32, log10; 0 where the file gives none.
        first_line: 1-based line number of the first n-gram, 0 if it is not from a file.
    """

    ids: NDArray[np.int32]
    log_probs: NDArray[np.float32]
    backoffs: NDArray[np.float32]
    first_line: int = 0


@dataclass(frozen=True)
class Arpa:
    """A back-off language model: `words[i]` is word i, `sections[n - 1]` has its n-grams."""

    words: list[bytes]
    sections: list[NGrams]

    @property
    def order(self) -> int:
        """Length of the longest n-grams."""
        return len(self.sections)


def read_arpa(path: textio.StrPath) -> Arpa:
    r"""Read a whole ARPA file, compressed or not.

    Raises:
        InputError: no header, a malformed line, a word without 1-gram, a missing section.
    """
    data = _read_all(path)
    counts, position, line = _read_header(path, data)
    buffer = np.frombuffer(data, np.uint8)
    words = WordTable(counts[0])
    sections = []
    for order, n_rows in enumerate(counts, start=1):
        position, line = _skip_to(path, data, position, line, b"\\%d-grams:" % order)
        section = NGrams(
            np.zeros((n_rows, order), np.int32),
            np.zeros(n_rows, np.float32),
            np.zeros(n_rows, np.float32),
            line,
        )
        position, n_done, problem = _parse_section(
            buffer, position, section.ids, section.log_probs, section.backoffs, *words.arrays
        )
        if problem != GOOD:
            _refuse(path, data, position, line + n_done, problem)
        line += n_rows
        sections.append(section)
    _skip_to(path, data, position, line, b"\\end\\")
    return Arpa(words.texts(data), sections)


class WordTable:
    """Open-addressing table from a word, whose bytes stay in the file's buffer, to its number."""

    def __init__(self, n_words: int) -> None:
        n_slots = 1 << max(4, (2 * n_words).bit_length())
        self.arrays = (
            np.full(n_slots, -1, np.int32),
            np.zeros(n_words, np.int64),
            np.zeros(n_words, np.int64),
        )

    def texts(self, data: bytes) -> list[bytes]:
        """The words by number."""
        _, starts, ends = self.arrays
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _read_all(path: textio.StrPath) -> bytes:
    with textio.open_read(path) as stream:
        try:
            return stream.read()
        except (EOFError, OSError) as error:
            raise InputError(path, None, f"damaged data ({error})", "a complete file") from error


def _read_header(path: textio.StrPath, data: bytes) -> tuple[list[int], int, int]:
    position, line = _skip_to(path, data, 0, 1, b"\\data\\")
    counts: list[int] = []
    while True:
        end = data.find(b"\n", position)
        text = data[position : max(end, position)].strip()
        match = COUNT_LINE.fullmatch(text)
        if match is None:
            break
        order, count = int(match[1]), int(match[2])
        if order != len(counts) + 1 or order > MAX_ORDER or count * 2 * order > len(data):
            raise InputError(path, line, repr(text)[1:], "a count that fits the file")
        counts.append(count)
        position, line = end + 1, line + 1
    if not counts:
        raise InputError(path, line, repr(text)[1:], "ngram 1=COUNT")
    return counts, position, line


def _skip_to(
    path: textio.StrPath, data: bytes, position: int, line: int, mark: bytes
) -> tuple[int, int]:
    """Pass blank lines (or all before the header) and the line `mark`; the place after it."""
    while position < len(data):
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        text = data[position:end].strip()
        if text == mark:
            return end + 1, line + 1
        if text and mark != b"\\data\\":
            raise InputError(path, line, repr(text[:80])[1:], mark.decode())
        position, line = end + 1, line + 1
    raise InputError(path, line, "the end of the file", mark.decode(), "Is this an ARPA file?")


def _refuse(path: textio.StrPath, data: bytes, position: int, line: int, problem: int) -> None:
    end = data.find(b"\n", position)
    text = data[position : len(data) if end < 0 else end]
    raise InputError(path, line, repr(text[:120])[1:], EXPECTATIONS[problem])


@njit(cache=True)
def _is_space(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13


@njit(cache=True)
def _skip_space(data: Any, position: int, end: int) -> int:
    while position < end and _is_space(data[position]):
        position += 1
    return position


@njit(cache=True)
def _token_end(data: Any, position: int, end: int) -> int:
    while position < end and not _is_space(data[position]):
        position += 1
    return position


@njit(cache=True)
def _parse_digits(data: Any, position: int, end: int) -> tuple[float, int]:
    value = 0.0
    while position < end and 48 <= data[position] <= 57:
        value = value * 10.0 + (data[position] - 48)
        position += 1
    return value, position


@njit(cache=True)
def _parse_signed(data: Any, position: int, end: int) -> tuple[float, int]:
    """A sign of its own and the place after it."""
    if position < end and data[position] == 45:
        return -1.0, position + 1
    if position < end and data[position] == 43:
        return 1.0, position + 1
    return 1.0, position


@njit(cache=True)
def _parse_number(data: Any, start: int, end: int) -> tuple[float, bool]:
    """A decimal number that fills data[start:end], and whether it was one."""
    sign, begin = _parse_signed(data, start, end)
    value, position = _parse_digits(data, begin, end)
    n_digits = position - begin
    exponent = 0.0
    if position < end and data[position] == 46:
        begin = position + 1
        fraction, position = _parse_digits(data, begin, end)
        n_digits += position - begin
        value += fraction * 10.0 ** -(position - begin)
    if n_digits > 0 and position < end and (data[position] == 101 or data[position] == 69):
        exponent_sign, begin = _parse_signed(data, position + 1, end)
        exponent, position = _parse_digits(data, begin, end)
        if position == begin:
            return 0.0, False
        exponent *= exponent_sign
    return sign * value * 10.0**exponent, n_digits > 0 and position == end


@njit(cache=True)
def _word_slot(data: Any, start: int, end: int, slots: Any, starts: Any, ends: Any) -> int:
    """The slot that holds the word data[start:end], or the free slot where it belongs."""
    code = np.uint64(14695981039346656037)
    for i in range(start, end):
        code = (code ^ np.uint64(data[i])) * np.uint64(1099511628211)
    mask = len(slots) - 1
    slot = int(np.int64((code ^ (code >> np.uint64(29))) & np.uint64(mask)))
    while slots[slot] >= 0:
        word = slots[slot]
        if ends[word] - starts[word] == end - start:
            same = True
            for i in range(end - start):
                if data[starts[word] + i] != data[start + i]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _parse_row(
    data: Any, position: int, end: int, row: int, ids: Any, log_probs: Any, backoffs: Any,
    slots: Any, starts: Any, ends: Any,
) -> int:  # fmt: skip
    order = ids.shape[1]
    start = _skip_space(data, position, end)
    position = _token_end(data, start, end)
    log_prob, good = _parse_number(data, start, position)
    if not good:
        return BAD_NUMBER
    if log_prob > 0.0:
        return POSITIVE
    log_probs[row] = log_prob
    for i in range(order):
        start = _skip_space(data, position, end)
        position = _token_end(data, start, end)
        if position == start:
            return TOO_FEW_WORDS
        slot = _word_slot(data, start, position, slots, starts, ends)
        if order == 1:
            if slots[slot] >= 0:
                return DUPLICATE
            slots[slot], starts[row], ends[row] = row, start, position
        elif slots[slot] < 0:
            return UNKNOWN_WORD
        ids[row, i] = slots[slot]
    start = _skip_space(data, position, end)
    position = _token_end(data, start, end)
    if position > start:
        backoff, good = _parse_number(data, start, position)
        if not good:
            return BAD_NUMBER
        backoffs[row] = backoff
    return GOOD if _skip_space(data, position, end) == end else TRAILING


@njit(cache=True)
def _parse_section(
    data: Any, position: int, ids: Any, log_probs: Any, backoffs: Any,
    slots: Any, starts: Any, ends: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the arrays from the lines at `position`; place, number of good rows, problem."""
    for row in range(len(log_probs)):
        end = position
        while end < len(data) and data[end] != 10:
            end += 1
        if _skip_space(data, position, end) == end or data[position] == 92:
            return position, row, SHORT
        problem = _parse_row(
            data, position, end, row, ids, log_probs, backoffs, slots, starts, ends
        )
        if problem != GOOD:
            return position, row, problem
        position = end + 1
    return position, len(log_probs), GOOD
