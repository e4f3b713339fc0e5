"""Sums by context against numpy's, in memory and in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.array_file import ArrayFile, ArrayFiles, parts
from moses_bridge.builtin.language_model.kneser_ney import ContextSums, Shares

N_CONTEXTS, N_NGRAMS = 90, 1000


@pytest.mark.parametrize("at_once", [1, 13, N_CONTEXTS, 5000])
def test_sums_are_those_of_one_pass(tmp_path: Path, at_once: int) -> None:
    random_numbers = np.random.default_rng(6)
    contexts = random_numbers.integers(0, N_CONTEXTS - 2, N_NGRAMS)
    counts = random_numbers.integers(1, 50, N_NGRAMS)
    freed = random_numbers.random(N_NGRAMS)
    totals = np.bincount(contexts, counts, N_CONTEXTS)
    with np.errstate(invalid="ignore"):
        weights = np.bincount(contexts, freed, N_CONTEXTS) / totals
    with ArrayFiles(tmp_path) as files:
        sums, of_contexts = ContextSums(N_CONTEXTS, files, at_once), files.new(np.float64)
        places = list(parts(N_NGRAMS, 301))
        for first, end in places:
            sums.add(Shares(contexts[first:end], counts[first:end], freed[first:end]))
        sums.finish(of_contexts)
        # bit by bit, since sums of floats depend on their order
        assert np.array_equal(of_contexts.read(0, N_CONTEXTS), weights, equal_nan=True)
        assert np.isnan(weights).sum() == 2
        for first, end in places:
            own_totals, own_weights = sums.of_ngrams(contexts[first:end])
            assert np.array_equal(own_totals, totals[contexts[first:end]])
            assert np.array_equal(own_weights, weights[contexts[first:end]])


def test_contexts_that_fit_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[type[np.float64]] = []
    with ArrayFiles(tmp_path) as files:
        new = files.new

        def watched(kind: type[np.float64]) -> ArrayFile[np.float64]:
            opened.append(kind)
            return new(kind)

        monkeypatch.setattr(files, "new", watched)
        ContextSums(10, files, 10)
        assert not opened
        ContextSums(11, files, 10)
        assert len(opened) == 2
