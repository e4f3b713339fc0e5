"""Decimal numbers read from bytes by compiled code, rounded like float()."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from moses_bridge.base.compiled.bytes_by_name import (
    LARGE_E,
    MINUS,
    NINE,
    PLUS,
    POINT,
    SMALL_E,
    ZERO,
)
from moses_bridge.base.compiled.inner import inner

# A mantissa below 2^53 and a power of ten up to 22 are both exact as doubles, so one operation rounds
# as float() does (Clinger 1990, section 4).
EXACT_MANTISSA, EXACT_EXPONENT = 2**53, 22
POWERS_OF_TEN = 10.0 ** np.arange(EXACT_EXPONENT + 1)
FULL_MANTISSA = 10**17  # one digit more still goes into 63 bits
MAX_EXPONENT = 100_000  # beyond all doubles; larger ones would overflow while they are read
LARGEST_POWER = 308  # of ten that is a double
NO_NUMBER = -1


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
