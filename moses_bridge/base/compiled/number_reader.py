"""Decimal numbers read from bytes by compiled code, rounded like float()."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import (
    BLANK,
    LARGE_E,
    MINUS,
    NEWLINE,
    NINE,
    PLUS,
    POINT,
    SMALL_E,
    ZERO,
)
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit

# A mantissa below 2^53 and a power of ten up to 22 are both exact as doubles, so one operation rounds
# as float() does (Clinger 1990, section 4).
EXACT_MANTISSA, EXACT_EXPONENT = 2**53, 22
POWERS_OF_TEN = 10.0 ** np.arange(EXACT_EXPONENT + 1)
FULL_MANTISSA = 10**17  # one digit more still goes into 63 bits
MAX_EXPONENT = 100_000  # beyond all doubles; larger ones would overflow while they are read
LARGEST_POWER = 308  # of ten that is a double
NO_NUMBER = -1
MAX_DIGITS = 9  # of a whole number, which cannot overflow 32 bits
LARGEST_EXPONENT = 290  # with a mantissa below 10^18 the number stays below 10^308, so it is finite


class Decimal(NamedTuple):
    """A number as written: mantissa * 10^exponent.

    Attributes:
        end: after its last byte; NO_NUMBER if there is no number.
        is_negative: whether a minus sign precedes it.
        mantissa: its first 18 digits, leading zeros not counted, without the point.
        exponent: the power of ten.
        n_dropped: digits after the first 18; 0 if the mantissa is exact.
    """

    end: int
    is_negative: bool
    mantissa: int
    exponent: int
    n_dropped: int


@inner
def read_number(text: Any, start: int, end: int) -> Decimal:
    """The longest number beginning at `start`: sign, digits, point, digits, exponent."""
    at = start
    is_negative = at < end and text[np.uintp(at)] == MINUS
    if is_negative or (at < end and text[np.uintp(at)] == PLUS):
        at += 1
    first = at
    at, mantissa, n_dropped = _read_digits(text, at, end, 0, 0)
    n_digits, exponent = at - first, 0
    if at < end and text[np.uintp(at)] == POINT:
        first = at + 1
        at, mantissa, n_dropped = _read_digits(text, first, end, mantissa, n_dropped)
        n_digits += at - first
        exponent = first - at
    if n_digits == 0:
        return Decimal(NO_NUMBER, is_negative, 0, 0, 0)
    if at < end and (text[np.uintp(at)] == SMALL_E or text[np.uintp(at)] == LARGE_E):
        at, power = _read_exponent(text, at + 1, end)
        exponent += power
    return Decimal(at, is_negative, mantissa, exponent + n_dropped, n_dropped)


@inner
def is_exact(number: Decimal) -> bool:
    """Whether `value_of` rounds like float()."""
    return bool(
        number.n_dropped == 0
        and number.mantissa < EXACT_MANTISSA
        and abs(number.exponent) <= EXACT_EXPONENT
    )


@inner
def value_of(number: Decimal) -> float:
    """The nearest double if `is_exact`, else one at most two units of the last place from it.

    Mantissa, power and product are each rounded once; a value converted to float32, such as a log probability,
    hardly ever shows it. math.pow is used since numba compiles ** to repeated products, which round more often.
    """
    if is_exact(number):
        power = POWERS_OF_TEN[abs(number.exponent)]
        value = number.mantissa / power if number.exponent < 0 else number.mantissa * power
    else:
        # math.pow of plain Python raises where that of compiled code gives infinity.
        exponent = float(number.exponent)
        power = math.pow(10.0, exponent) if exponent <= LARGEST_POWER else math.inf
        value = float(number.mantissa) * power
    return float(-value if number.is_negative else value)


@inner
def _read_digits(
    text: Any, at: int, end: int, mantissa: int, n_dropped: int
) -> tuple[int, int, int]:
    """The end of the digits beginning here, the mantissa they extend, and the number of digits dropped."""
    while at < end and ZERO <= text[np.uintp(at)] <= NINE:
        if mantissa < FULL_MANTISSA:
            mantissa = 10 * mantissa + digit(text[np.uintp(at)])
        else:
            n_dropped += 1
        at += 1
    return at, mantissa, n_dropped


@inner
def digit(byte: Any) -> Any:
    """The value of a digit, in 64 bits: uncompiled NumPy would keep the byte's 8."""
    return np.int64(byte) - ZERO


@inner
def read_whole(text: Any, start: int, end: int) -> tuple[int, int]:
    """The whole number beginning at `start` and its end; NO_NUMBER without digits, or with more than nine."""
    number, at = 0, start
    while at < end and ZERO <= text[at] <= NINE and at - start <= MAX_DIGITS:
        number = 10 * number + digit(text[at])
        at += 1
    return (number if 0 < at - start <= MAX_DIGITS else NO_NUMBER), at


@inner
def _read_exponent(text: Any, at: int, end: int) -> tuple[int, int]:
    """The end of the exponent after "e" (NO_NUMBER if it has no digits), and its value."""
    is_negative = at < end and text[np.uintp(at)] == MINUS
    if is_negative or (at < end and text[np.uintp(at)] == PLUS):
        at += 1
    first, power = at, 0
    while at < end and ZERO <= text[np.uintp(at)] <= NINE:
        power = min(MAX_EXPONENT, 10 * power + digit(text[np.uintp(at)]))
        at += 1
    if at == first:
        return NO_NUMBER, 0
    return at, -power if is_negative else power


def are_plain_numbers(rows: bytes, n_columns: int) -> bool:
    """Whether each row, ended by a line feed, has n_columns finite numbers (18 digits or fewer)."""
    return bool(_are_plain(np.frombuffer(rows, np.uint8), n_columns))


def plain_numbers(rows: bytes, n_columns: int) -> NDArray[np.float64] | None:
    """The numbers of rows, each ended by a line feed, *Shape:* (n_rows, n_columns).

    None if one of them needs float() for reading or rounding (see `number_reader`), or a row has another number
    of them.
    """
    n_rows = rows.count(b"\n")
    if 2 * n_rows * n_columns > len(rows):
        return None
    values = np.empty((n_rows, n_columns))
    return values if _read_plain(np.frombuffer(rows, np.uint8), values) else None


@njit(nogil=True)
def _are_plain(text: NDArray[np.uint8], n_columns: int) -> bool:
    at = 0
    while at < len(text):
        n_found = 0
        at = _after_blanks(text, at)
        while text[at] != NEWLINE:
            number = read_number(text, at, len(text))
            is_finite = number.n_dropped == 0 and number.exponent <= LARGEST_EXPONENT
            if not (is_finite and _ends(text, number.end)):
                return False
            n_found += 1
            at = _after_blanks(text, number.end)
        if n_found != n_columns:
            return False
        at += 1
    return True


@njit(nogil=True)
def _read_plain(text: NDArray[np.uint8], values: NDArray[np.float64]) -> bool:
    at = 0
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            number = read_number(text, _after_blanks(text, at), len(text))
            if not (is_exact(number) and _ends(text, number.end)):
                return False
            values[row, column] = value_of(number)
            at = number.end
        at = _after_blanks(text, at)
        if text[at] != NEWLINE:
            return False
        at += 1
    return True


@inner
def _after_blanks(text: NDArray[np.uint8], at: int) -> int:
    while text[at] == BLANK:
        at += 1
    return at


@inner
def _ends(text: NDArray[np.uint8], end: int) -> bool:
    """Whether a number ends here, followed by a blank or the end of the line."""
    return bool(end != NO_NUMBER and (text[end] == BLANK or text[end] == NEWLINE))
