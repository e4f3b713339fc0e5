"""Tables of numbers as programs print them, read compiled; whatever else they hold is left to others."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

NEWLINE, BLANK, PLUS, MINUS, POINT, ZERO, NINE, SMALL_E, LARGE_E = b"\n +-.09eE"
MAX_DIGITS = 18
EXACT_MANTISSA, EXACT_EXPONENT = 2**53, 22
POWERS = 10.0 ** np.arange(EXACT_EXPONENT + 1)


def are_plain_numbers(rows: bytes, n_columns: int) -> bool:
    """Whether each row has so many finite numbers between blanks, of at most 18 digits.

    Args:
        rows: each followed by "\\n".
        n_columns: numbers in each.
    """
    return bool(_are_plain(np.frombuffer(rows, np.uint8), n_columns))


def plain_numbers(rows: bytes, n_columns: int) -> NDArray[np.float64] | None:
    """The numbers of rows, *Shape:* (n_rows, n_columns); None where float() must look.

    A mantissa below 2^53 and a power of ten up to 22 are both exact, so one operation rounds as
    float() does (Clinger 1990, section 4).

    Args:
        rows: each followed by "\\n".
        n_columns: numbers in each.
    """
    n_rows = rows.count(b"\n")
    if 2 * n_rows * n_columns > len(rows):
        return None
    values = np.empty((n_rows, n_columns))
    are_exact = _read_plain(np.frombuffer(rows, np.uint8), values, POWERS)
    return values if are_exact else None


@njit(cache=True, nogil=True)
def _are_plain(text: NDArray[np.uint8], n_columns: int) -> bool:
    at = 0
    while at < len(text):
        n_found = 0
        at = _behind_blanks(text, at)
        while text[at] != NEWLINE:
            at, _, _ = _number(text, at)
            if at < 0:
                return False
            n_found += 1
            at = _behind_blanks(text, at)
        if n_found != n_columns:
            return False
        at += 1
    return True


@njit(cache=True, nogil=True)
def _read_plain(
    text: NDArray[np.uint8], values: NDArray[np.float64], powers: NDArray[np.float64]
) -> bool:
    at = 0
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            at = _behind_blanks(text, at)
            is_negative = text[at] == MINUS
            at, mantissa, exponent = _number(text, at)
            if at < 0 or mantissa >= EXACT_MANTISSA or abs(exponent) > EXACT_EXPONENT:
                return False
            power = powers[abs(exponent)]
            value = mantissa / power if exponent < 0 else mantissa * power
            values[row, column] = -value if is_negative else value
        at = _behind_blanks(text, at)
        if text[at] != NEWLINE:
            return False
        at += 1
    return True


@njit(cache=True, nogil=True)
def _behind_blanks(text: NDArray[np.uint8], at: int) -> int:
    while text[at] == BLANK:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _number(text: NDArray[np.uint8], at: int) -> tuple[int, int, int]:
    """Where the number that begins here ends, its mantissa without sign, and its power of ten.

    The end is -1 if there is none, or none that surely is finite and followed by a blank.
    """
    if text[at] == PLUS or text[at] == MINUS:
        at += 1
    end, mantissa = _digits(text, at, 0)
    n_digits, exponent = end - at, 0
    if text[end] == POINT:
        at = end + 1
        end, mantissa = _digits(text, at, mantissa)
        n_digits, exponent = n_digits + end - at, at - end
    if n_digits < 1 or n_digits > MAX_DIGITS:
        return -1, 0, 0
    if text[end] == SMALL_E or text[end] == LARGE_E:
        at = end + 1
        is_small = text[at] == MINUS
        if is_small or text[at] == PLUS:
            at += 1
        end, power = _digits(text, at, 0)
        if end == at or end - at > 2 + is_small:
            return -1, 0, 0
        exponent += -power if is_small else power
    if text[end] != BLANK and text[end] != NEWLINE:
        return -1, 0, 0
    return end, mantissa, exponent


@njit(cache=True, nogil=True)
def _digits(text: NDArray[np.uint8], at: int, value: int) -> tuple[int, int]:
    """Where the digits that begin here end, and the number that they continue."""
    while ZERO <= text[at] <= NINE:
        value = 10 * value + text[at] - ZERO
        at += 1
    return at, value
