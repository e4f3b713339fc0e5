"""The columns of a row of a phrase table and their positions, for Python and for compiled code.

`source ||| target ||| scores [||| alignment [||| counts [||| sparse features [||| properties]]]]`. Moses
splits a row at the bare bytes `|||` (moses/TranslationModel/RuleTable/LoaderStandard.cpp:181-209). A
reordering table has the first three columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import BAR as BAR_BYTE
from moses_bridge.base.compiled.bytes_by_name import BLANK, CARRIAGE_RETURN, TAB
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.scanning import line_end

BAR = b"|||"
BAR_LENGTH = len(BAR)
SOURCE, TARGET, SCORES, ALIGNMENT, COUNTS, SPARSE, PROPERTIES = range(7)
FEWEST_COLUMNS = SCORES + 1
# The places in the column of scores written by Moses's training: p(f|e), lex(f|e), p(e|f), lex(e|f) with the
# source f and the target e.
INVERSE_PROB, INVERSE_LEXICAL, DIRECT_PROB, DIRECT_LEXICAL = range(4)
# The places in the column of counts.
TARGET_COUNT, SOURCE_COUNT, JOINT_COUNT = range(3)


class RowColumns(NamedTuple):
    """The beginnings and ends of the first three columns of a row, blanks included.

    A missing column begins and ends at the end of the row; the source begins with the row.
    """

    source: int
    source_end: int
    target: int
    target_end: int
    scores: int
    scores_end: int
    end: int


@inner
def find_columns(text: Any, start: int, end: int) -> RowColumns:
    """Find the columns of the row text[start:end]."""
    source_end = column_end(text, start, end)
    target = _after_bar(source_end, end)
    target_end = column_end(text, target, end)
    scores = _after_bar(target_end, end)
    scores_end = column_end(text, scores, end)
    return RowColumns(
        source=start,
        source_end=source_end,
        target=target,
        target_end=target_end,
        scores=scores,
        scores_end=scores_end,
        end=end,
    )


@inner
def has_scores(row: RowColumns) -> bool:
    """Whether the row has at least three columns."""
    return row.target_end < row.end


@inner
def column_after_scores(text: Any, row: RowColumns, column: int) -> tuple[int, int]:
    """The beginning and end of a column after the scores, `ALIGNMENT` or a later one."""
    begin, end = further_column(text, row.scores_end, row.end, column - SCORES)
    return begin, end


@inner
def further_column(text: Any, end: int, row_end: int, n_columns: int) -> tuple[int, int]:
    """The beginning and end of the column n_columns, 1 or more, after the one ending at `end`."""
    begin = end
    for _ in range(n_columns):
        begin = _after_bar(end, row_end)
        end = column_end(text, begin, row_end)
    return begin, end


@inner
def _after_bar(position: int, end: int) -> int:
    return min(position + BAR_LENGTH, end)


@inner
def column_end(text: Any, position: int, end: int) -> int:
    """The end of the column: the next "|||" or the end of the row.

    The third byte is compared first, so that most of the text is skipped in steps of three (Boyer and
    Moore 1977).
    """
    while position + 2 < end:
        if text[np.uintp(position + 2)] != BAR_BYTE:
            position += 3
        elif text[np.uintp(position + 1)] != BAR_BYTE:
            position += 2
        elif text[np.uintp(position)] != BAR_BYTE:
            position += 1
        else:
            return position
    return end


@inner
def put_bar(out: Any, end: int) -> int:
    """Write `||| ` and return the new end."""
    for _ in range(BAR_LENGTH):
        out[end] = BAR_BYTE
        end += 1
    out[end] = BLANK
    return end + 1


def insert_scores(rows: bytes, added: bytes) -> bytes:
    """Insert a text, followed by "\\n", after the scores of each row, before any blanks or CR.

    The rows have at least three columns and are each followed by "\\n". Compiled, so that threads can run it in
    parallel.
    """
    both = np.frombuffer(rows, np.uint8), np.frombuffer(added, np.uint8)
    result: bytes = _insert_scores(*both).tobytes()
    return result


@njit(nogil=True)
def _insert_scores(rows: NDArray[np.uint8], added: NDArray[np.uint8]) -> Any:
    result = np.empty(len(rows) + len(added), np.uint8)
    n_written = row = text = 0
    while row < len(rows):
        end = line_end(rows, row)
        cut = _scores_text_end(rows, find_columns(rows, row, end))
        n_written = _copy(rows, row, cut, result, n_written)
        text_end = line_end(added, text)
        n_written = _copy(added, text, text_end, result, n_written)
        n_written = _copy(rows, cut, end + 1, result, n_written)
        row, text = end + 1, text_end + 1
    return result[:n_written]


@inner
def _scores_text_end(rows: NDArray[np.uint8], row: RowColumns) -> int:
    """The end of the scores' text, before any blanks or CR."""
    cut = row.scores_end
    while cut > row.scores and rows[cut - 1] in (BLANK, TAB, CARRIAGE_RETURN):
        cut -= 1
    return cut


@inner
def _copy(
    text: NDArray[np.uint8], start: int, end: int, result: NDArray[np.uint8], n_written: int
) -> int:
    for at in range(start, end):
        result[n_written] = text[np.uintp(at)]
        n_written += 1
    return n_written
