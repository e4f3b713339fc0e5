from __future__ import annotations

import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from rescorer.contract.parallel import keep_freed_memory, map_in_order


def test_an_error_in_a_job_is_raised() -> None:
    def fail_at_three(number: int) -> int:
        if number == 3:
            raise KeyError(number)
        return number

    found = []
    with pytest.raises(KeyError):
        for number in map_in_order(fail_at_three, range(10), 2):
            found.append(number)
    assert found == [0, 1, 2]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_are_in_the_order_of_the_items(jobs: int) -> None:
    def slow_at_first(number: int) -> int:
        time.sleep(0.002 * (20 - number))
        return number**2

    assert list(map_in_order(slow_at_first, range(20), jobs)) == [n**2 for n in range(20)]


def test_so_many_jobs_work_at_a_time() -> None:
    """The barrier opens only when three have come to it."""
    barrier = threading.Barrier(3, timeout=30)

    def meet(number: int) -> int:
        barrier.wait()
        return number

    assert list(map_in_order(meet, range(6), 3)) == list(range(6))


def test_items_are_not_all_read_ahead() -> None:
    n_read = 0

    def items() -> Iterator[int]:
        nonlocal n_read
        for number in range(100):
            n_read += 1
            yield number

    results = map_in_order(lambda number: number, items(), 2)
    assert next(results) == 0
    assert n_read <= 4
    results.close()  # type: ignore[attr-defined]


def test_each_job_computes_on_one_thread_and_the_caller_as_before() -> None:
    n_threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        seen = list(map_in_order(lambda _: torch.get_num_threads(), range(4), 2))
        assert (seen, torch.get_num_threads()) == ([1] * 4, 3)
        with pytest.raises(ZeroDivisionError):
            list(map_in_order(lambda number: 1 // number, range(4), 2))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(n_threads)


FAULTS = """
import resource, numpy
from rescorer.contract.parallel import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [numpy.ones(2_000_000) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = [faults() for _ in range(4)][-1]
keep_freed_memory()
print(given_back, [faults() for _ in range(4)][-1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", FAULTS], capture_output=True, text=True, check=True
    )
    given_back, kept = map(int, done.stdout.split())
    # 48 MB are 11,719 pages of 4 kB, or fewer larger ones.
    assert given_back > 20 and kept < given_back / 4


def test_another_c_library_keeps_its_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescorer.contract.parallel.ctypes.CDLL", lambda name: object())
    keep_freed_memory()
