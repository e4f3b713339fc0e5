"""Blocks of consecutive items of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def blocks_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in their order, `size` at a time; the last block may have fewer."""
    left = iter(items)
    while block := list(islice(left, size)):
        yield block
