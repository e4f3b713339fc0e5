"""Sorted runs brought together, against one sort of everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.array_file import ArrayFiles
from moses_bridge.builtin import sorted_runs
from moses_bridge.builtin.sorted_runs import CountedKeys, SortedRuns, counted

N_KEYS = 5000


def value_of(keys: np.ndarray) -> np.ndarray:
    return keys * 7 % 1009


def drawn(seed: int) -> np.ndarray:
    """Keys of which few are frequent, as in a text."""
    return np.minimum(np.random.default_rng(seed).zipf(1.3, N_KEYS), 10**6).astype(np.int64)


@pytest.mark.parametrize("at_once", [1, 100, 1000, 10_000])
@pytest.mark.parametrize("n_runs", [1, 7])
def test_merged_runs_are_all_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, n_runs: int
) -> None:
    monkeypatch.setattr(sorted_runs, "SAMPLES_OF_A_SHARD", 50)
    keys = [drawn(seed) for seed in range(n_runs)]
    with ArrayFiles(tmp_path) as files:
        runs = SortedRuns(files, N_KEYS * n_runs, at_once)
        places = []
        for some in keys:
            run, of_keys = counted(some, value_of(some), None)
            runs.add(run)
            places.append(of_keys)
        shards = list(runs.merged())
        merged = CountedKeys(*map(np.concatenate, zip(*shards, strict=True)))
        distinct, counts = np.unique(np.concatenate(keys), return_counts=True)
        assert np.array_equal(merged.keys, distinct)
        assert np.array_equal(merged.values, value_of(distinct))
        assert np.array_equal(merged.counts, counts)
        for number, (some, of_keys) in enumerate(zip(keys, places, strict=True)):
            assert np.array_equal(distinct[runs.numbers_of_run(number)[of_keys]], some)
    longest = max(len(shard.keys) for shard in shards)
    assert longest <= at_once + n_runs * (at_once // 50 + 1)


def test_runs_without_keys(tmp_path: Path) -> None:
    nothing, _ = counted(np.empty(0, np.int64), np.empty(0, np.int64), None)
    with ArrayFiles(tmp_path) as files:
        runs = SortedRuns(files, 1, 10)
        runs.add(nothing)
        assert [len(shard.keys) for shard in runs.merged()] == [0]
