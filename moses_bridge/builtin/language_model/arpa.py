"""ARPA files as arrays: n-grams of word numbers, log10 probabilities and back-offs."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base import textio
from moses_bridge.base.compiled.bytes_by_name import (
    BACKSLASH,
    BLANK,
    CARRIAGE_RETURN,
    MINUS,
    NEWLINE,
    POINT,
    TAB,
    ZERO,
)
from moses_bridge.base.compiled.hash_table import FREE
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.compiled.lexicon import LexiconTables, find_slot, words_of, words_within
from moses_bridge.base.compiled.number_reader import NO_NUMBER, read_number, value_of
from moses_bridge.base.compiled.word_writer import PackedWords, pack_words, put_count, put_word
from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.progress import Progress

COUNT_LINE = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)\s*")
MAX_ORDER = 16
SMALLEST = 1e-99
BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UNKNOWN, UNKNOWN_IN_CAPITALS = b"<unk>", b"<UNK>"  # are one word to KenLM (lm/vocab.cc)
LETTER_I, LETTER_N, LETTER_F = b"inf"
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
ROWS_AT_ONCE = 1 << 16  # some 3 MB of text
N_DECIMALS = 7  # what a float32 between 1 and 10 holds
SCALE = 10**N_DECIMALS
NUMBER_WIDTH = 24  # sign, point, 7 decimals, a tab and the digits of any log10 of a float32


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


def floored_log10(probs: NDArray[np.float64]) -> NDArray[np.float32]:
    """Log10 of probabilities or weights; -99, as programs write it, for 0."""
    return np.log10(np.maximum(probs, SMALLEST)).astype(np.float32)


def read_arpa(path: textio.StrPath) -> Arpa:
    r"""Read a whole ARPA file, compressed or not, as KenLM does (lm/read_arpa.hh).

    <UNK> becomes <unk>; a log10 probability may be -inf.

    Raises:
        InputError: no header, a malformed line, a word without 1-gram, a missing section, a back-off of one of
            the longest n-grams, more than `MAX_ORDER` words in an n-gram.
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
    _refuse_backoffs(path, sections[-1])
    words.sizes[0] = counts[0]
    return Arpa(_with_one_unknown_word(path, words_of(words), sections[0].first_line), sections)


def _refuse_backoffs(path: textio.StrPath, longest: NGrams) -> None:
    """Refuse weights of the longest n-grams: no search applies them as the estimator meant."""
    rows = np.flatnonzero(longest.backoffs)
    if len(rows):
        found = f"the back-off {longest.backoffs[rows[0]]:g} of an n-gram of the highest order"
        hint = "A model cut to its lower orders is no model: estimate one of this order"
        raise InputError(path, longest.first_line + int(rows[0]), found, "none", hint)


def _with_one_unknown_word(
    path: textio.StrPath, words: list[bytes], first_line: int
) -> list[bytes]:
    if UNKNOWN_IN_CAPITALS not in words:
        return words
    place = words.index(UNKNOWN_IN_CAPITALS)
    if UNKNOWN in words:
        raise InputError(path, first_line + place, "<UNK> besides <unk>", "one of them")
    return [*words[:place], UNKNOWN, *words[place + 1 :]]


def _read_header(path: textio.StrPath, data: bytes) -> tuple[list[int], int, int]:
    if data.startswith(BYTE_ORDER_MARKS):
        hint = "Write the file without it: sed '1s/^\\xEF\\xBB\\xBF//'"
        raise InputError(path, 1, "a byte order mark (BOM)", "plain text in UTF-8", hint)
    position, line = _skip_to(path, data, 0, 1, b"\\data\\")
    counts: list[int] = []
    while True:
        end = data.find(b"\n", position)
        text = data[position : max(end, position)].strip()
        match = COUNT_LINE.fullmatch(text)
        if match is None:
            break
        order, count = int(match[1]), int(match[2])
        if order > MAX_ORDER:
            hint = "Estimate a model of a lower order"
            raise InputError(path, line, f"n-grams of {order} words", f"at most {MAX_ORDER}", hint)
        if order != len(counts) + 1 or count * 2 * order > len(data):
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
    found = f"the end of a file that begins with {shown(data[:40])}"
    raise InputError(path, line, found, mark.decode(), "Is this an ARPA file?")


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


@inner
def _is_minus_infinity(data: Any, start: int, end: int) -> bool:
    """Whether data[start:end] is "-inf", as KenLM spells it."""
    is_signed = end - start == 4 and data[start] == MINUS and data[start + 1] == LETTER_I
    return bool(is_signed and data[start + 2] == LETTER_N and data[start + 3] == LETTER_F)


@compiled
def _parse_section(
    data: Any, position: int, section: NGrams, words: LexiconTables
) -> tuple[int, int, int]:
    """Fill the section from the lines at `position`; return place, number of good rows, problem."""
    # One function, since numba's counting of references to arrays in a passed tuple took half of the time.
    order = section.ids.shape[1]
    for row in range(len(section.log_probs)):
        end = position
        while end < len(data) and data[end] != NEWLINE:
            end += 1
        if _skip_space(data, position, end) == end or data[position] == BACKSLASH:
            return position, row, SHORT
        start, at = _next_token(data, position, end)
        log_prob, good = _parse_number(data, start, at)
        if not good and _is_minus_infinity(data, start, at):
            log_prob, good = -np.inf, True
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


class NGramSection(NamedTuple):
    """The n-grams of one order, part by part in the order of writing, and their number."""

    n_ngrams: int
    parts: Iterable[NGrams]


def write_arpa(path: textio.StrPath, arpa: Arpa) -> None:
    """Write a model with 7 decimals, compressed by suffix; the file appears only when complete."""
    write_sections(path, arpa.words, [NGramSection(len(s.log_probs), [s]) for s in arpa.sections])


def write_sections(
    path: textio.StrPath, words: list[bytes], sections: Sequence[NGramSection]
) -> None:
    """See `write_arpa`; for a model with one part in memory at a time."""
    packed = pack_words(words)
    with (
        textio.open_write(path) as stream,
        Progress(Path(path).name, sum(s.n_ngrams for s in sections), "n-grams") as progress,
    ):
        stream.write(_header(sections))
        for order, section in enumerate(sections, start=1):
            stream.write(b"\n\\%d-grams:\n" % order)
            for part in section.parts:
                for first in range(0, len(part.log_probs), ROWS_AT_ONCE):
                    text = _format(packed, part, first, has_backoffs=order < len(sections))
                    stream.write(text.tobytes())
                    progress.update(len(part.log_probs[first : first + ROWS_AT_ONCE]))
        stream.write(b"\n\\end\\\n")


def _header(sections: Sequence[NGramSection]) -> bytes:
    counts = [b"ngram %d=%d\n" % (order, s.n_ngrams) for order, s in enumerate(sections, start=1)]
    return b"\\data\\\n" + b"".join(counts)


def _format(
    words: PackedWords, section: NGrams, first: int, *, has_backoffs: bool
) -> NDArray[np.uint8]:
    rows = slice(first, first + ROWS_AT_ONCE)
    ids = section.ids[rows]
    n_bytes = int(np.diff(words.starts)[ids].sum()) + ids.size + len(ids) * 2 * NUMBER_WIDTH
    text = np.empty(n_bytes, np.uint8)
    backoffs = section.backoffs[rows] if has_backoffs else np.empty(0, np.float32)
    return text[: _format_rows(text, words, ids, section.log_probs[rows], backoffs)]


@inner
def _put_number(text: Any, end: int, number: float) -> int:
    scaled = int(np.round(abs(number) * SCALE))
    if number < 0.0 and scaled > 0:
        text[end] = MINUS
        end += 1
    end, fraction = put_count(text, end, scaled // SCALE), scaled % SCALE
    if fraction > 0:
        text[end] = POINT
        end += 1
    divisor = SCALE // 10
    while fraction > 0:
        text[end] = ZERO + fraction // divisor
        end += 1
        fraction %= divisor
        divisor //= 10
    return end


@compiled
def _format_rows(text: Any, words: PackedWords, ids: Any, log_probs: Any, backoffs: Any) -> int:
    """Write the lines into `text` and return the number of bytes."""
    end = 0
    n_rows, order = ids.shape
    for row in range(n_rows):
        end = _put_number(text, end, float(log_probs[row]))
        for i in range(order):
            text[end] = TAB if i == 0 else BLANK
            end = put_word(text, end + 1, words, ids[row, i])
        if len(backoffs) > 0:
            text[end] = TAB
            end = _put_number(text, end + 1, float(backoffs[row]))
        text[end] = NEWLINE
        end += 1
    return end
