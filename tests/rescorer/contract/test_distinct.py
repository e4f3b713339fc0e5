"""Equal items told once."""

from __future__ import annotations

import pytest

from rescorer.contract.distinct import distinct


@pytest.mark.parametrize(
    ("items", "different", "which"),
    [
        ([b"b", b"a", b"b", b"c", b"a"], [b"b", b"a", b"c"], [0, 1, 0, 2, 1]),
        ([b"a"], [b"a"], [0]),
        ([], [], []),
    ],
)
def test_each_item_once_in_the_order_of_the_first(
    items: list[bytes], different: list[bytes], which: list[int]
) -> None:
    found, numbers = distinct(items)
    assert (found, numbers.tolist()) == (different, which)
