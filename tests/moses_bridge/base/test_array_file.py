"""Arrays in files against arrays in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from moses_bridge.base.array_file import ArrayFiles, numbers_below, parts


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ArrayFiles]:
    with ArrayFiles(tmp_path) as files:
        yield files


def test_parts_are_read_as_they_were_written(files: ArrayFiles) -> None:
    draw, array = random.Random(2), files.new(np.float64)
    expected = np.zeros(0)
    for _ in range(50):
        some = np.array([draw.random() for _ in range(draw.randint(0, 9))])
        if draw.random() < 0.6:
            array.append(some)
            expected = np.concatenate([expected, some])
        elif len(expected) >= len(some):
            first = draw.randint(0, len(expected) - len(some))
            array.write(first, some)
            expected[first : first + len(some)] = some
    assert len(array) == len(expected) > 100
    assert np.array_equal(array.read(0, len(array)), expected)
    assert np.array_equal(array.read(17, 90), expected[17:90])
    assert len(array.read(5, 5)) == 0


@pytest.mark.parametrize("chance", [0.01, 0.2, 1.0])
def test_scattered_places(files: ArrayFiles, chance: float) -> None:
    random_numbers = np.random.default_rng(4)
    expected = random_numbers.integers(0, 1000, 2000)
    array = files.new(np.int64)
    array.append(expected)
    places = np.flatnonzero(random_numbers.random(2000) < chance)
    twice = np.sort(np.concatenate([places, places[::3]]))
    assert np.array_equal(array.take(twice), expected[twice])
    amounts = random_numbers.integers(0, 9, len(places))
    array.add(places, amounts)
    expected[places] += amounts
    assert np.array_equal(array.read(0, 2000), expected)


def test_no_more_is_read_at_once_than_is_asked_for(
    files: ArrayFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = files.new(np.int32)
    array.lengthen(10_000)
    sizes = []
    read = array.read

    def watched(first: int, end: int) -> Any:
        sizes.append(end - first)
        return read(first, end)

    monkeypatch.setattr(array, "read", watched)
    assert not array.take(np.arange(0, 10_000, 700)).any()
    assert max(sizes) <= len(range(0, 10_000, 700))


def test_numbers_of_32_bits_where_they_suffice(files: ArrayFiles) -> None:
    for limit, kind in ((2**31 - 1, np.int32), (2**31, np.int64)):
        array = numbers_below(limit, files)
        array.append(np.array([limit - 1]))
        assert array.read(0, 1).dtype == kind
        assert array.read(0, 1).tolist() == [limit - 1]


def test_what_is_not_there_is_not_read(files: ArrayFiles) -> None:
    array = files.new(np.int32)
    array.append(np.arange(3))
    with pytest.raises(EOFError, match="5 numbers were asked for of 3"):
        array.read(0, 5)


def test_a_full_disk(files: ArrayFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(dir: Path, buffering: int) -> BinaryIO:
        return open("/dev/full", "w+b", buffering=buffering)  # type: ignore[return-value]

    monkeypatch.setattr("tempfile.TemporaryFile", full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        files.new(np.int32).append(np.arange(3))


def test_files_have_no_names(files: ArrayFiles, tmp_path: Path) -> None:
    files.new(np.int32).append(np.arange(3))
    assert not list(tmp_path.iterdir())


def test_parts() -> None:
    assert list(parts(7, 3)) == [(0, 3), (3, 6), (6, 7)]
    assert list(parts(0, 3)) == []
