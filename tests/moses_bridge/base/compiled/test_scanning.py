from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.base.compiled.scanning import line_end, next_token, same_bytes
from moses_bridge.formats.words import split_words


@njit
def end_of_line(data: Any, position: int) -> int:
    return line_end(data, position)


@njit
def tokens(data: Any, end: int) -> list[tuple[int, int]]:
    found = []
    start, position = next_token(data, 0, end)
    while start < position:
        found.append((start, position))
        start, position = next_token(data, position, end)
    return found


@njit
def are_same(data: Any, first: int, others: Any, second: int, length: int) -> bool:
    return same_bytes(data, first, others, second, length)


def as_array(text: bytes) -> Any:
    return np.frombuffer(text, np.uint8)


def texts() -> list[bytes]:
    draw = random.Random(4)
    return [bytes(draw.choices(b"a| \t\r", k=draw.randint(1, 14))) for _ in range(3000)]


def test_tokens_are_the_words_of_a_line() -> None:
    for text in texts():
        found = [text[start:end] for start, end in tokens(as_array(text), len(text))]
        assert found == split_words(text)


def test_a_line_ends_at_a_line_feed_alone() -> None:
    text = as_array(b"a\rb\x0b\x85\nc\n")
    assert [int(end_of_line(text, place)) for place in (0, 3, 5, 6)] == [5, 5, 5, 7]


@pytest.mark.parametrize(
    ("first", "second", "length", "same"),
    [(0, 3, 3, True), (0, 3, 2, True), (1, 3, 3, False), (2, 0, 0, True), (0, 2, 4, False)],
)
def test_stretches_are_compared_byte_by_byte(
    first: int, second: int, length: int, same: bool
) -> None:
    text = as_array(b"abcabcd")
    assert are_same(text, first, text, second, length) is same
