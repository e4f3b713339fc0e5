"""Runs of a stream's items, each small enough to be held and large enough to be worked on at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def blocks_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in their order, so many at a time; the last block may have fewer."""
    left = iter(items)
    while block := list(islice(left, size)):
        yield block
