from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit

from moses_bridge.base.compiled.number_reader import (
    NO_NUMBER,
    is_exact,
    read_number,
    read_whole,
    value_of,
)


@njit
def read(text: Any, start: int, end: int) -> Any:
    number = read_number(text, start, end)
    return number.end, value_of(number), is_exact(number)


def number_in(text: bytes) -> tuple[int, float, bool]:
    end, value, exact = read(np.frombuffer(text, np.uint8), 0, len(text))
    return int(end), float(value), bool(exact)


@pytest.mark.parametrize(
    ("text", "end", "value"),
    [
        (b"0.5", 3, 0.5),
        (b"-12.25e-2 x", 9, -0.1225),
        (b"+.5|", 3, 0.5),
        (b"5. ", 2, 5.0),
        (b"1e2e3", 3, 100.0),
        (b"1.5.5", 3, 1.5),
        (b"00000000000000000000000012", 26, 12.0),
        (b"1E+5", 4, 100000.0),
        (b"-0", 2, -0.0),
    ],
)
def test_a_number_ends_where_it_ends(text: bytes, end: int, value: float) -> None:
    found_end, found, exact = number_in(text)
    assert (found_end, exact) == (end, True)
    assert struct.pack("d", found) == struct.pack("d", value)


@pytest.mark.parametrize(
    "text", [b"", b"x", b"+", b"-.", b".", b"e5", b"1e", b"1e+", b"nan", b"- 1"]
)
def test_what_is_no_number_is_told(text: bytes) -> None:
    assert number_in(text)[0] == NO_NUMBER


@njit
def whole(text: Any) -> Any:
    return read_whole(text, 0, len(text))


@pytest.mark.parametrize(
    ("text", "number"),
    [(b"7-", 7), (b"987654321 ", 987654321), (b"9876543210", NO_NUMBER), (b"-1", NO_NUMBER)],
)
def test_whole_numbers_have_at_most_nine_digits(text: bytes, number: int) -> None:
    found, end = whole(np.frombuffer(text, np.uint8))
    assert found == number and (number == NO_NUMBER or end == len(str(number)))


NUMBERS = st.from_regex(rb"[+-]?[0-9]{1,25}(\.[0-9]{0,25})?(e[+-]?[0-9]{1,3})?", fullmatch=True)


@settings(deadline=None)  # the first call compiles
@given(NUMBERS)
@example(b"1e999")
@example(b"1e-999")
@example(b"4.9406564584124654e-324")
@example(b"1" + b"0" * 25)
def test_values_are_those_of_python(text: bytes) -> None:
    end, value, exact = number_in(text)
    expected = float(text)
    assert end == len(text)
    if exact:
        assert struct.pack("d", value) == struct.pack("d", expected)
    elif 1e-290 < abs(expected) < 1e290:
        assert abs(value - expected) <= 2 * math.ulp(expected)
    elif expected == 0 or math.isinf(expected):
        assert value == expected or math.isnan(value) or abs(value) < 1e-300


def test_printed_scores_become_the_float32_of_python() -> None:
    scores = np.exp(-60 * np.random.default_rng(1).random(20_000))
    texts = [b"%.6g" % score for score in scores]
    ours = np.array([number_in(text)[1] for text in texts], np.float32)
    np.testing.assert_array_equal(ours, np.array([float(text) for text in texts], np.float32))


def test_an_exponent_of_many_digits_does_not_overflow() -> None:
    assert number_in(b"1e" + b"9" * 60)[1] == math.inf
    assert number_in(b"1e-" + b"9" * 60)[1] == 0.0
