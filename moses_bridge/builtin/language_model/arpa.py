"""ARPA files as arrays: n-grams of word numbers, log10 probabilities and back-offs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base import textio
from moses_bridge.base.compiled.bytes_by_name import BACKSLASH, BLANK, CARRIAGE_RETURN, NEWLINE, TAB
from moses_bridge.base.compiled.hash_table import FREE
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.compiled.lexicon import LexiconTables, find_slot, words_of, words_within
from moses_bridge.base.compiled.number_reader import NO_NUMBER, read_number, value_of
from moses_bridge.base.errors import InputError, shown

COUNT_LINE = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)\s*")
MAX_ORDER = 16  # longer n-grams are in no model; a header announcing them is damaged
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


class NGrams(NamedTuple):
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
    data = textio.read_bytes(path)
    counts, position, line = _read_header(path, data)
    buffer = np.frombuffer(data, np.uint8)
    words = words_within(buffer, counts[0])
    sections = []
    for order, n_rows in enumerate(counts, start=1):
        position, line = _skip_to(path, data, position, line, b"\\%d-grams:" % order)
        section = NGrams(
            np.zeros((n_rows, order), np.int32),
            np.zeros(n_rows, np.float32),
            np.zeros(n_rows, np.float32),
            line,
        )
        position, n_done, problem = _parse_section(buffer, position, section, words)
        if problem != GOOD:
            _refuse(path, data, position, line + n_done, problem)
        line += n_rows
        sections.append(section)
    _skip_to(path, data, position, line, b"\\end\\")
    words.sizes[0] = counts[0]
    return Arpa(words_of(words), sections)


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
            raise InputError(path, line, shown(text), "a count that fits the file")
        counts.append(count)
        position, line = end + 1, line + 1
    if not counts:
        raise InputError(path, line, shown(text), "ngram 1=COUNT")
    return counts, position, line


def _skip_to(
    path: textio.StrPath, data: bytes, position: int, line: int, mark: bytes
) -> tuple[int, int]:
    """Skip blank lines (before the header: any) and the line `mark`; return the place after it."""
    while position < len(data):
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        text = data[position:end].strip()
        if text == mark:
            return end + 1, line + 1
        if text and mark != b"\\data\\":
            raise InputError(path, line, shown(text), mark.decode())
        position, line = end + 1, line + 1
    raise InputError(path, line, "the end of the file", mark.decode(), "Is this an ARPA file?")


def _refuse(path: textio.StrPath, data: bytes, position: int, line: int, problem: int) -> None:
    end = data.find(b"\n", position)
    text = data[position : len(data) if end < 0 else end]
    raise InputError(path, line, shown(text), EXPECTATIONS[problem])


@inner
def _is_space(byte: int) -> bool:
    return byte in (BLANK, TAB, CARRIAGE_RETURN)


@inner
def _skip_space(data: Any, position: int, end: int) -> int:
    while position < end and _is_space(data[position]):
        position += 1
    return position


@inner
def _next_token(data: Any, position: int, end: int) -> tuple[int, int]:
    """Start and end of the next token, equal if there is none; unlike in tables, a CR is a separator."""
    start = position = _skip_space(data, position, end)
    while position < end and not _is_space(data[position]):
        position += 1
    return start, position


@inner
def _parse_number(data: Any, start: int, end: int) -> tuple[float, bool]:
    """The decimal number filling data[start:end], and whether there is one."""
    number = read_number(data, start, end)
    return value_of(number), number.end != NO_NUMBER and number.end == end


@compiled
def _parse_section(
    data: Any, position: int, section: NGrams, words: LexiconTables
) -> tuple[int, int, int]:
    """Fill the section from the lines at `position`; return place, number of good rows, problem.

    One function, since numba's counting of references to arrays in a passed tuple took half of the time.
    """
    order = section.ids.shape[1]
    for row in range(len(section.log_probs)):
        end = position
        while end < len(data) and data[end] != NEWLINE:
            end += 1
        if _skip_space(data, position, end) == end or data[position] == BACKSLASH:
            return position, row, SHORT
        start, at = _next_token(data, position, end)
        log_prob, good = _parse_number(data, start, at)
        if not good or log_prob > 0.0:
            return position, row, POSITIVE if good else BAD_NUMBER
        section.log_probs[row] = log_prob
        for i in range(order):
            start, at = _next_token(data, at, end)
            if start == at:
                return position, row, TOO_FEW_WORDS
            slot = find_slot(words, data, start, at)
            if (words.slots[slot] == FREE) != (order == 1):
                return position, row, DUPLICATE if order == 1 else UNKNOWN_WORD
            if order == 1:
                words.slots[slot], words.starts[row], words.ends[row] = row, start, at
            section.ids[row, i] = words.slots[slot]
        start, at = _next_token(data, at, end)
        if start < at:
            backoff, good = _parse_number(data, start, at)
            if not good:
                return position, row, BAD_NUMBER
            section.backoffs[row] = backoff
        if _skip_space(data, at, end) < end:
            return position, row, TRAILING
        position = end + 1
    return position, len(section.log_probs), GOOD
