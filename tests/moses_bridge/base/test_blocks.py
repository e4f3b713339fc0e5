"""Blocks of a stream, and results in the order of its items: it is read no further than it is asked for."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import torch

from moses_bridge.base import textio
from moses_bridge.base.blocks import blocks_of, map_in_order, read_whole_lines
from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines


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
    barrier = threading.Barrier(3, timeout=60)

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


@pytest.mark.parametrize(
    "text", [b"", b"a\n", b"a", b"\n\n", b"a\nbcd\n\nefghij\nk", b"abcdefghi\n"]
)
@pytest.mark.parametrize("n_bytes", [1, 3, 100])
def test_they_are_the_lines(
    text: bytes, n_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textio, "PIECE_BYTES", n_bytes)
    (tmp_path / "text").write_bytes(text)
    pieces = list(read_whole_lines(tmp_path / "text"))
    assert all(piece.endswith(b"\n") for piece in pieces)
    expected = b"".join(line + b"\n" for line in read_lines(tmp_path / "text"))
    assert b"".join(pieces) == expected


def test_faults_name_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textio, "PIECE_BYTES", 1000)
    whole = gzip.compress(b"".join(b"%d\n" % (k * 7919) for k in range(50_000)))
    (tmp_path / "text.gz").write_bytes(whole[: len(whole) // 2])
    n_lines = 0
    with pytest.raises(InputError, match="damaged data") as error:
        for piece in read_whole_lines(tmp_path / "text.gz"):
            n_lines += piece.count(b"\n")
    assert error.value.line == n_lines + 1 > 1
    monkeypatch.setenv("MOSES_BRIDGE_LINE_MB", "1")
    (tmp_path / "long").write_bytes(b"a\n" + b"b" * (1 << 21))
    with pytest.raises(InputError, match="long:2: found a line of more than 1 MiB"):
        list(read_whole_lines(tmp_path / "long"))
