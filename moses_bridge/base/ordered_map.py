"""Blocks in parallel, results in order."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from moses_bridge.base.blocks import in_order

Item = TypeVar("Item")
Result = TypeVar("Result")


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
