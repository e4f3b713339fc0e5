"""Blocks of items of a stream, pieces of whole lines of a file, and parallel results in their order."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import numpy as np

from moses_bridge.base.textio import StrPath, whole_lines

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

    Items are read as results are taken: the pool has at most n_ahead items after the current one.
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
    """Yield function(item) of each item in their order, computed by `jobs` threads.

    Each job computes on one thread, so processors work on several items instead of sharing one, and no
    result depends on the number of threads. Reading items and using results overlap with the jobs.
    A function computing with PyTorch must have loaded it before.
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


def read_whole_lines(path: StrPath) -> Iterator[bytes]:
    """Yield pieces of some hundred kilobytes that end with a line, each line followed by "\\n".

    Raises:
        InputError: as `textio.read_lines`.
    """
    n_lines = 0

    def line_number() -> int:
        return n_lines + 1

    for text in whole_lines(path, line_number):
        yield text
        # `bytes.count` takes five times as long.
        n_lines += int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))
