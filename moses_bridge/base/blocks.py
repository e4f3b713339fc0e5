"""Blocks of consecutive items of a stream, and results in the order of their items, computed in parallel."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
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


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Iterator[Result]:
    """Yield function(item) of each item, in their order, with `jobs` of them in work at a time.

    Each job computes on one thread: the items are independent, so processors are better used by
    more items than by sharing one, and a result does not depend on the number of threads. Items are
    read ahead of the jobs, so reading and what the caller does with a result overlap with them.
    A function that computes with PyTorch has to have loaded it before.
    """
    with _one_thread_each(jobs) as pool:
        yield from in_order(pool, function, items, jobs)


@contextlib.contextmanager
def _one_thread_each(jobs: int) -> Iterator[ThreadPoolExecutor]:
    torch = sys.modules.get("torch")
    if torch is None:  # nothing to compute with it, so it is not loaded for this
        with ThreadPoolExecutor(jobs) as pool:
            yield pool
        return
    n_threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(n_threads)
