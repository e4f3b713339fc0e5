"""Text put into many rows at once, by compiled code, so that threads can do it side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

NEWLINE, BLANK, TAB, CARRIAGE_RETURN, BAR = b"\n \t\r|"


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
        end = _line_end(rows, row)
        cut = _scores_end(rows, row, end)
        n_written = _copy(rows, row, cut, result, n_written)
        text_end = _line_end(added, text)
        n_written = _copy(added, text, text_end, result, n_written)
        n_written = _copy(rows, cut, end + 1, result, n_written)
        row, text = end + 1, text_end + 1
    return result[:n_written]


@njit(cache=True, nogil=True)
def _scores_end(rows: NDArray[np.uint8], start: int, end: int) -> int:
    first = _after_bar(rows, _after_bar(rows, start, end), end)
    cut: int = _after_bar(rows, first, end) - 3
    while cut > first and rows[cut - 1] in (BLANK, TAB, CARRIAGE_RETURN):
        cut -= 1
    return cut


@njit(cache=True, nogil=True)
def _after_bar(rows: NDArray[np.uint8], at: int, end: int) -> int:
    """Behind the next "|||"; three behind the end if there is none."""
    while at < end:
        if rows[at] == BAR and rows[at + 1] == BAR and rows[at + 2] == BAR:
            return at + 3
        at += 1
    return end + 3


@njit(cache=True, nogil=True)
def _line_end(text: NDArray[np.uint8], at: int) -> int:
    while text[at] != NEWLINE:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _copy(
    text: NDArray[np.uint8], start: int, end: int, result: NDArray[np.uint8], n_written: int
) -> int:
    for at in range(start, end):
        result[n_written] = text[at]
        n_written += 1
    return n_written
