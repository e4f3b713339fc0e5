"""Tables of plainly printed numbers, read by compiled code; anything else is left to the caller."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import BLANK, NEWLINE
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.number_reader import NO_NUMBER, is_exact, read_number, value_of

LARGEST_EXPONENT = 290  # with a mantissa below 10^18 the number stays below 10^308, so it is finite


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
