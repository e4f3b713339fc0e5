"""Writes table rows in compiled code: words and numbers as Moses prints them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import BLANK, MINUS, PLUS, POINT, SMALL_E, ZERO
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.word_writer import PackedWords, pack_words, put_count, put_word
from moses_bridge.builtin.extraction.aligned_corpus import Text

N_DIGITS = 6  # the default precision of a C++ stream
NUMBER_BYTES = 14  # "0.000123456 ", "1.23457e-100 " and a byte to spare


class PackedText(NamedTuple):
    """A running text laid out for copying its words.

    Attributes:
        vocabulary: its distinct words.
        words: (n_words,) numbers of the running words.
        bytes_before: (n_words + 1,) bytes of all running words before each, one blank for each.
    """

    vocabulary: PackedWords
    words: NDArray[np.int32]
    bytes_before: NDArray[np.int64]


def pack_text(text: Text) -> PackedText:
    """Lay the vocabulary out for compiled code."""
    vocabulary = pack_words(text.vocabulary)
    lens = np.diff(vocabulary.starts)[text.words]
    return PackedText(vocabulary, text.words, np.concatenate(([0], np.cumsum(lens + 1))))


def n_phrase_bytes(text: PackedText, starts: NDArray[np.int32], lens: NDArray[np.uint8]) -> int:
    """Total bytes of these phrases, with a blank after each word."""
    return int((text.bytes_before[starts + lens] - text.bytes_before[starts]).sum())


@inner
def put_phrase(out: Any, end: int, text: PackedText, start: int, length: int) -> int:
    """Write the words from `start`, each followed by a blank, and return the new end."""
    for position in range(start, start + length):
        end = put_word(out, end, text.vocabulary, text.words[position])
        out[end] = BLANK
        end += 1
    return end


@inner
def put_number(out: Any, end: int, number: float) -> int:
    """Write a non-negative number as C++ streams do, `%g` with 6 digits, and return the new end."""
    if number == 0.0:
        out[end] = ZERO
        return end + 1
    exponent = int(np.floor(np.log10(number)))
    digits = _digits(number, exponent)
    if digits < 10 ** (N_DIGITS - 1):
        exponent -= 1
        digits = _digits(number, exponent)
    if digits >= 10**N_DIGITS:
        exponent += 1
        digits = _digits(number, exponent)
    n_digits = N_DIGITS
    while digits % 10 == 0:
        digits //= 10
        n_digits -= 1
    if exponent < -4 or exponent >= N_DIGITS:
        end = _put_decimal(out, end, digits, n_digits, 1)
        return int(_put_exponent(out, end, exponent))
    if exponent < 0:
        out[end], out[end + 1] = ZERO, POINT
        end += 2
        for _ in range(-exponent - 1):
            out[end] = ZERO
            end += 1
        return int(put_count(out, end, digits))
    return int(_put_decimal(out, end, digits, n_digits, exponent + 1))


@inner
def _digits(number: float, exponent: int) -> int:
    """The number in units of its sixth digit, halves (to double precision) to even."""
    shift = N_DIGITS - 1 - exponent
    scaled = number * 10.0**shift if shift >= 0 else number / 10.0**-shift
    return int(np.rint(scaled))


@inner
def _put_decimal(out: Any, end: int, digits: int, n_digits: int, n_whole: int) -> int:
    while n_digits < n_whole:
        digits *= 10
        n_digits += 1
    divisor = 10 ** (n_digits - 1)
    for i in range(n_digits):
        if i == n_whole:
            out[end] = POINT
            end += 1
        out[end] = ZERO + digits // divisor % 10
        end += 1
        divisor //= 10
    return end


@inner
def _put_exponent(out: Any, end: int, exponent: int) -> int:
    out[end] = SMALL_E
    out[end + 1] = MINUS if exponent < 0 else PLUS
    end += 2
    if abs(exponent) < 10:
        out[end] = ZERO
        end += 1
    return int(put_count(out, end, abs(exponent)))
