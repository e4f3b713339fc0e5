"""Rows of text tables, `f ||| e ||| numbers ...`, for compiled code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.compiled.inner import inner
from moses_bridge.errors import InputError
from moses_bridge.textio import StrPath, open_read

GOOD, FULL, FEW_COLUMNS, BAD_SCORE, N_SCORES, NO_SOURCE = range(6)
LOG_FLOOR = -100.0  # TransformScore and LOWEST_SCORE of Moses (moses/Util.h, moses/TypeDef.h)
BAR = 124


def read_table(path: StrPath) -> NDArray[np.uint8]:
    """All bytes of a table, decompressed, ending in "\\n".

    Raises:
        InputError: the file cannot be read or its compressed data is damaged.
    """
    with open_read(path) as stream:
        try:
            data = stream.read()
        except (EOFError, OSError) as error:
            raise InputError(path, None, f"damaged data ({error})", "a complete file") from error
    if not data.endswith(b"\n") and data:
        data += b"\n"
    return np.frombuffer(data, np.uint8)


def refuse_row(
    path: StrPath, data: NDArray[np.uint8], position: int, row: int, problem: int, n_scores: int
) -> InputError:
    """The fault of the row (counted from 0) that starts at `position`."""
    line = bytes(data[position : position + 2000]).partition(b"\n")[0]
    expected = {
        FEW_COLUMNS: "at least 3 columns between '|||'",
        BAD_SCORE: "finite scores of at least 0 (Moses makes NaN of a negative one)",
        N_SCORES: f"{n_scores} scores in column 3",
        NO_SOURCE: "words in column 1",
    }[problem]
    return InputError(path, row + 1, repr(line[:120])[1:], expected)


@inner
def line_end(data: Any, position: int) -> int:
    """Where the line ends, before its "\\n"."""
    while data[position] != 10:
        position += 1
    return position


@inner
def column_end(data: Any, position: int, end: int) -> int:
    """Where the column ends: at the next "|||" or at the end of the line."""
    while position + 2 < end:
        if data[position + 2] != BAR:
            position += 3
        elif data[position + 1] != BAR:
            position += 2
        elif data[position] != BAR:
            position += 1
        else:
            return position
    return end


@inner
def next_token(data: Any, position: int, end: int) -> tuple[int, int]:
    """Start and end of the next token, which blanks or tabs set off; equal if there is none."""
    while position < end and (data[position] == 32 or data[position] == 9):
        position += 1
    start = position
    while position < end and data[position] != 32 and data[position] != 9:
        position += 1
    return start, position


@inner
def _digits(data: Any, position: int, end: int, value: float) -> tuple[float, int]:
    while position < end and 48 <= data[position] <= 57:
        value = value * 10.0 + (data[position] - 48)
        position += 1
    return value, position


@inner
def _exponent(data: Any, position: int, end: int) -> tuple[int, int]:
    """The number behind "e" and the place after it; the place is -1 if there is none."""
    sign = 1
    if position < end and (data[position] == 45 or data[position] == 43):
        sign = -1 if data[position] == 45 else 1
        position += 1
    value, last = _digits(data, position, end, 0.0)
    if last == position:
        return 0, -1
    return sign * int(min(value, 400.0)), last


@inner
def parse_score(data: Any, start: int, end: int) -> float:
    """A number of at least 0 that fills data[start:end]; -1 if it is none."""
    value, position = _digits(data, start, end, 0.0)
    n_digits, scale = position - start, 0
    if position < end and data[position] == 46:
        value, last = _digits(data, position + 1, end, value)
        scale = position + 1 - last
        n_digits += last - position - 1
        position = last
    if n_digits > 0 and position < end and (data[position] | 32) == 101:
        exponent, position = _exponent(data, position + 1, end)
        scale += exponent
    if n_digits == 0 or position != end:
        return -1.0
    value *= 10.0**scale
    return value if value < math.inf else -1.0


@inner
def parse_logs(data: Any, position: int, end: int, out: Any) -> int:
    """Natural logarithms, floored, of exactly len(out) scores; returns GOOD or the problem."""
    for i in range(len(out)):
        start, position = next_token(data, position, end)
        if start == position:
            return N_SCORES
        value = parse_score(data, start, position)
        if value < 0.0:
            return BAD_SCORE
        out[i] = max(LOG_FLOOR, math.log(value)) if value > 0.0 else LOG_FLOOR
    start, position = next_token(data, position, end)
    return N_SCORES if start < position else GOOD


@inner
def same_bytes(data: Any, first: int, second: int, length: int) -> bool:
    """Whether two stretches of the text are equal."""
    for i in range(length):  # noqa: SIM110 (slow when compiled)
        if data[first + i] != data[second + i]:
            return False
    return True
