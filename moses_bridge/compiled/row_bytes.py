"""Text put into many rows at once, by compiled code, so that threads can do it side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.bytes_by_name import BLANK, CARRIAGE_RETURN, TAB
from moses_bridge.compiled.inner import inner
from moses_bridge.compiled.scanning import column_end, line_end

BAR_BYTES = 3


def insert_scores(rows: bytes, added: bytes) -> bytes:
    """The rows with text behind their scores, before the blanks or the CR that follow them.

    Args:
        rows: rows of at least three columns, each followed by "\\n".
        added: a text for each row, each followed by "\\n".
    """
    both = np.frombuffer(rows, np.uint8), np.frombuffer(added, np.uint8)
    result: bytes = _insert_scores(*both).tobytes()
    return result


@njit(cache=True, nogil=True)
def _insert_scores(rows: NDArray[np.uint8], added: NDArray[np.uint8]) -> Any:
    result = np.empty(len(rows) + len(added), np.uint8)
    n_written = row = text = 0
    while row < len(rows):
        end = line_end(rows, row)
        cut = _scores_end(rows, row, end)
        n_written = _copy(rows, row, cut, result, n_written)
        text_end = line_end(added, text)
        n_written = _copy(added, text, text_end, result, n_written)
        n_written = _copy(rows, cut, end + 1, result, n_written)
        row, text = end + 1, text_end + 1
    return result[:n_written]


@inner
def _scores_end(rows: NDArray[np.uint8], start: int, end: int) -> int:
    """Where the text of the third column ends, before the blanks or the CR that follow it."""
    target = column_end(rows, start, end) + BAR_BYTES
    first = column_end(rows, target, end) + BAR_BYTES
    cut = int(column_end(rows, first, end))
    while cut > first and rows[cut - 1] in (BLANK, TAB, CARRIAGE_RETURN):
        cut -= 1
    return cut


@inner
def _copy(
    text: NDArray[np.uint8], start: int, end: int, result: NDArray[np.uint8], n_written: int
) -> int:
    for at in range(start, end):
        result[n_written] = text[at]
        n_written += 1
    return n_written
