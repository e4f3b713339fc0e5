"""Columns found by compiled code, compared with a split in Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from moses_bridge.formats.row_columns import (
    ALIGNMENT,
    COUNTS,
    PROPERTIES,
    SPARSE,
    column_after_scores,
    column_end,
    find_columns,
    has_scores,
    insert_scores,
    put_bar,
)

ROW = b"a b ||| c ||| 1 0.5 ||| 0-0 1-0 ||| 3 2 1 ||| x 2 ||| {{Counts 1}}"


@njit
def end_of_column(data: Any, position: int, end: int) -> int:
    return column_end(data, position, end)


@njit
def first_columns(data: Any, start: int, end: int) -> tuple[tuple[int, ...], bool]:
    row = find_columns(data, start, end)
    return (
        row.source, row.source_end, row.target, row.target_end, row.scores, row.scores_end, row.end,
    ), has_scores(row)  # fmt: skip


@njit
def later_column(data: Any, column: int) -> tuple[int, int]:
    return column_after_scores(data, find_columns(data, 0, len(data)), column)


@njit
def bar_in(room: Any, end: int) -> int:
    return put_bar(room, end)


def as_array(text: bytes) -> Any:
    return np.frombuffer(text, np.uint8)


def texts() -> list[bytes]:
    draw = random.Random(4)
    return [bytes(draw.choices(b"a| \t\r", k=draw.randint(1, 14))) for _ in range(3000)]


def test_columns_end_where_python_splits() -> None:
    for text in texts():
        ends, position = [], 0
        while position <= len(text):
            ends.append(int(end_of_column(as_array(text + b"\n"), position, len(text))))
            position = ends[-1] + 3
        pieces = text.split(b"|||")
        expected = np.cumsum([len(piece) + 3 for piece in pieces]) - 3
        assert ends[: len(pieces)] == expected.tolist(), text


def test_the_first_columns_are_those_that_python_splits() -> None:
    for text in texts():
        places, is_whole = first_columns(as_array(b"||" + text + b"\n"), 2, 2 + len(text))
        assert places[0] == 2
        assert places[-1] == 2 + len(text)
        found = [(b"||" + text)[places[i] : places[i + 1]] for i in (0, 2, 4)]
        pieces = text.split(b"|||")
        assert found == [*pieces, b"", b""][:3], text
        # A row that ends with its second "|||" has an empty third column.
        assert is_whole is (len(pieces) > 2), text


@pytest.mark.parametrize("column", [ALIGNMENT, COUNTS, SPARSE, PROPERTIES])
def test_columns_after_the_scores_are_those_that_python_splits(column: int) -> None:
    first, end = later_column(as_array(ROW), column)
    assert ROW[first:end] == ROW.split(b"|||")[column]


@pytest.mark.parametrize("text", [b"", b"a", b"a ||| b", b"a ||| b ||| 1", b"a ||| b ||| 1 |||"])
def test_a_column_that_is_not_there_is_empty_at_the_end(text: bytes) -> None:
    assert later_column(as_array(text), COUNTS) == (len(text), len(text))


def test_a_bar_is_followed_by_a_blank() -> None:
    room = np.zeros(6, np.uint8)
    assert bar_in(room, 1) == 5
    assert room.tobytes() == b"\x00||| \x00"


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.binary(), st.binary()), max_size=4))
def test_texts_are_inserted_after_the_scores(pairs: list[tuple[bytes, bytes]]) -> None:
    clean = [tuple(part.translate(None, b"|\n") for part in pair) for pair in pairs]
    rows = b"".join(b"a|||%b|||1 0.5 |||%b\n" % pair for pair in clean)
    expected = b"".join(b"a|||%b|||1 0.5 7 |||%b\n" % pair for pair in clean)
    assert insert_scores(rows, b" 7\n" * len(clean)) == expected
