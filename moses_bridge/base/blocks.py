"""Blocks of consecutive items of a stream, and results of a pool in the order of its items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def blocks_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in their order, `size` at a time; the last block may have fewer."""
    left = iter(items)
    while block := list(islice(left, size)):
        yield block


def in_order(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], n_ahead: int
) -> Iterator[Result]:
    """Yield function(item) of each item in their order, computed by a pool.

    Args:
        pool: computes the results.
        function: makes a result of an item.
        items: read as the results are taken.
        n_ahead: number of items given to the pool beyond the one whose result is taken.
    """
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > n_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
