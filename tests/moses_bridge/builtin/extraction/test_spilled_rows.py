from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from moses_bridge.base.array_file import spilled_rows
from moses_bridge.builtin.extraction.occurrences import NO_OCCURRENCES, Occurrences
from moses_bridge.builtin.extraction.pair_counts import NO_PAIRS, PairCounts


def test_rows_come_back_by_their_numbers(tmp_path: Path) -> None:
    with spilled_rows(tmp_path / "t", NO_OCCURRENCES) as rows:
        columns = [np.arange(9, dtype=column.dtype) for column in NO_OCCURRENCES]
        rows.append(Occurrences(*columns))
        rows.append(NO_OCCURRENCES)
        rows.append(Occurrences(*columns))
        assert os.listdir(tmp_path) == []
        assert rows.n_rows == 18
        back = rows.read(7, 11)
    assert [column.tolist() for column in back] == [[7, 8, 0, 1]] * 5
    assert [column.dtype for column in back] == [column.dtype for column in NO_OCCURRENCES]


def test_several_rows_and_columns_of_any_shape(tmp_path: Path) -> None:
    with spilled_rows(tmp_path / "t", NO_PAIRS) as rows:
        n = 5
        columns = [np.arange(c[:0].size + n * int(np.prod(c.shape[1:]))) for c in NO_PAIRS]
        block = PairCounts(
            *(
                c.reshape(n, *e.shape[1:]).astype(e.dtype)
                for c, e in zip(columns, NO_PAIRS, strict=True)
            )
        )
        rows.append(block)
        rows.append(block)
        back = rows.read(3, 8)
    for given, found in zip(block, back, strict=True):
        np.testing.assert_array_equal(found, np.concatenate((given[3:], given[:3])))


def full_disk(dir: Path, buffering: int) -> BinaryIO:
    return open("/dev/full", "w+b", buffering=buffering)  # type: ignore[return-value]


def test_a_full_disk_is_told_with_the_file_that_was_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", full_disk)
    columns = Occurrences(*(np.zeros(9, column.dtype) for column in NO_OCCURRENCES))
    with (
        pytest.raises(OSError, match=r"No space left on device: .*model/table"),
        spilled_rows(tmp_path / "model/table", NO_OCCURRENCES) as rows,
    ):
        rows.append(columns)
