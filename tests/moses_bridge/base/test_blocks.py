"""Blocks of a stream, which is read no further than it is asked for."""

from __future__ import annotations

from itertools import count

import pytest

from moses_bridge.base.blocks import blocks_of


@pytest.mark.parametrize(
    ("size", "expected"),
    [(2, [[1, 2], [3, 4], [5]]), (5, [[1, 2, 3, 4, 5]]), (9, [[1, 2, 3, 4, 5]])],
)
def test_items_in_their_order(size: int, expected: list[list[int]]) -> None:
    assert list(blocks_of([1, 2, 3, 4, 5], size)) == expected


def test_nothing_has_no_blocks() -> None:
    assert list(blocks_of([], 3)) == []


def test_a_stream_is_read_block_by_block() -> None:
    numbers = count()
    assert next(blocks_of(numbers, 3)) == [0, 1, 2]
    assert next(numbers) == 3
