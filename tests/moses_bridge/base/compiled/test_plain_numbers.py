import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moses_bridge.base.compiled.number_reader import are_plain_numbers, plain_numbers

DIGITS = b"0123456789.+-eE \t\rx_"


@pytest.mark.parametrize(
    "columns",
    [b" 1 0.5 \n", b"1 .5\n1. 2\n", b"  -1   +2.5e-308\n", b"1e-4 9E200\n", b" 0.1 0\n" * 3],
)
def test_plain_numbers(columns: bytes) -> None:
    assert are_plain_numbers(columns, 2)


@pytest.mark.parametrize(
    "columns",
    [
        b"1\n",
        b"1 2 3\n",
        b"1 2\n1\n",
        b"1 nan\n",
        b"1 inf\n",
        b"1 1e999\n",
        b"1 1e309\n",
        b"1 1_0\n",
        b"1 .\n",
        b"1 e5\n",
        b"1 1e\n",
        b"1 --1\n",
        b"1 1-1\n",
        b"1\t2\n",
        b"1 2\r\n",
        b"1 " + b"9" * 400 + b"\n",
    ],
)
def test_what_is_not_plain_is_looked_at_again(columns: bytes) -> None:
    assert not are_plain_numbers(columns, 2)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.lists(st.sampled_from(DIGITS), max_size=6).map(bytes), min_size=1, max_size=3))
def test_plain_numbers_are_finite_numbers(words: list[bytes]) -> None:
    column = b" ".join(words)
    if are_plain_numbers(column + b"\n", len(column.split())):
        assert all(math.isfinite(float(word)) for word in column.split())


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.sampled_from(DIGITS), max_size=12).map(bytes))
def test_a_number_that_is_read_is_that_of_python(word: bytes) -> None:
    values = plain_numbers(word + b"\n", len(word.split()))
    if values is not None:
        expected = [struct.pack("d", float(text)) for text in word.split()]
        assert [struct.pack("d", value) for value in values[0]] == expected


@pytest.mark.parametrize("form", ["%g ", "%.7g ", "%.12g ", "%d ", "%.3e "])
def test_printed_tables_are_read_exactly(form: str) -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(200, 3)) * 10.0 ** rng.integers(-3, 4, (200, 3))
    rows = "".join("".join(form % value for value in row) + "\n" for row in table)
    expected = [[float(text) for text in row.split()] for row in rows.splitlines()]
    found = plain_numbers(rows.encode(), 3)
    assert found is not None
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "rows", [b"1 2\n1\n", b"1 2 3\n", b"1 nan\n", b"1 1e-40\n", b"1 x=2\n", b"\n"]
)
def test_what_float_must_see_is_left_to_it(rows: bytes) -> None:
    assert plain_numbers(rows, 2) is None


def test_no_rows() -> None:
    found = plain_numbers(b"", 3)
    assert found is not None and found.shape == (0, 3)


@pytest.mark.parametrize("n_columns", [4, 10**9, 10**21])
def test_more_columns_than_the_rows_can_hold(n_columns: int) -> None:
    assert plain_numbers(b"1 2 3\n", n_columns) is None
