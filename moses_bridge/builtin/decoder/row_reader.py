"""Reading the text of tables, and the scores of their rows as logarithms, in compiled code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import CARRIAGE_RETURN, MINUS, PLUS
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.number_reader import read_number, value_of
from moses_bridge.base.compiled.scanning import next_token
from moses_bridge.base.errors import BYTES_SHOWN, InputError, shown
from moses_bridge.base.textio import StrPath, read_bytes

# Results of reading a row: good, or the fault.
GOOD, FEW_COLUMNS, BAD_SCORE, N_SCORES, NO_SOURCE = range(5)
LOG_FLOOR = -100.0  # TransformScore and LOWEST_SCORE of Moses (moses/Util.h, moses/TypeDef.h)


def read_table(path: StrPath) -> NDArray[np.uint8]:
    """Read all bytes of a table, decompressed, ending in "\\n".

    Raises:
        InputError: the file cannot be read or its compressed data is damaged.
    """
    data = read_bytes(path)
    if not data.endswith(b"\n") and data:
        data += b"\n"
    return np.frombuffer(data, np.uint8)


def refuse_row(
    path: StrPath, data: NDArray[np.uint8], position: int, row: int, problem: int, n_scores: int
) -> InputError:
    """Make the error for row number `row`, from 0, beginning at data[position]; `problem` is a fault above."""
    line = bytes(data[position : position + BYTES_SHOWN]).partition(b"\n")[0]
    expected = {
        FEW_COLUMNS: "at least 3 columns between '|||'",
        BAD_SCORE: "finite scores of at least 0 (Moses makes NaN of a negative one)",
        N_SCORES: f"{n_scores} scores in column 3",
        NO_SOURCE: "words in column 1",
    }[problem]
    return InputError(path, row + 1, shown(line), expected)


@inner
def row_end(data: Any, end: int) -> int:
    """The end of a row's text: the end of its line, or a carriage return there."""
    return end - 1 if end > 0 and data[end - 1] == CARRIAGE_RETURN else end


@inner
def parse_score(data: Any, start: int, end: int) -> float:
    """The finite unsigned number in data[start:end]; -1 if there is anything else."""
    if data[start] == PLUS or data[start] == MINUS:
        return -1.0
    number = read_number(data, start, end)
    value = value_of(number)
    return value if number.end == end and value < math.inf else -1.0


@inner
def parse_logs(data: Any, position: int, end: int, out: Any) -> int:
    """Fill `out` with the floored natural logarithms of exactly len(out) scores; return GOOD or the fault."""
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
