"""Blocks in parallel, results in order."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from moses_bridge.base.blocks import in_order

Item = TypeVar("Item")
Result = TypeVar("Result")


# Turns of libgomp's waiting loop, some microseconds: a training of d=256 on two idle cores has 4,800 pairs a
# second (5,400 if threads spin without end, 3,500 if never), beside a busy process 3,300 (without end: 900).
SPINS = "1000"


def let_waiting_threads_sleep() -> None:
    """Make the threads of one product wait for each other asleep; to be called before PyTorch is loaded.

    By default OpenMP's threads spin at the end of each product. Where another process is busy, the last
    one has no processor while the others spin: a training was up to 20 times slower. What
    the user has set in the environment stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def compute_on_one_thread() -> None:
    """Make each product of this process run on one thread, so that its value does not depend on the machine."""
    # PyTorch is loaded here, so that what only joins files does not wait for it.
    import torch

    torch.set_num_threads(1)


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
