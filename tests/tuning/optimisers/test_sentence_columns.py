"""Lists arranged by sentence and column, against slices of the pool."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tuning.optimisers.sentence_columns import sentence_columns

SIZES = [3, 1, 5, 8]


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
def test_columns_are_those_of_each_sentence(kind: type) -> None:
    rng = np.random.default_rng(1)
    offsets = np.cumsum([0, *SIZES])
    features = rng.normal(size=(offsets[-1], 4))
    statistics = rng.integers(0, 3, (offsets[-1], 9)).astype(kind)
    lists = sentence_columns(features, statistics, offsets)
    assert lists.statistics is statistics
    for sentence, (first, end) in enumerate(itertools.pairwise(offsets)):
        rows = slice(first, end)
        assert (features[rows] == lists.features[4 * first : 4 * end].reshape(4, -1).T).all()
        kinds = slice(*lists.kind_offsets[sentence : sentence + 2])
        n_kinds = len(np.unique(statistics[rows], axis=0))
        assert len(np.unique(lists.kinds[rows])) == kinds.stop - kinds.start == n_kinds
        matches = lists.matches[4 * kinds.start : 4 * kinds.stop].reshape(4, -1).T
        assert (matches[lists.kinds[rows]] == statistics[rows, 0:8:2]).all()
        own = lists.totals[slice(*lists.total_offsets[sentence : sentence + 2])]
        expected = statistics[rows][:, [1, 3, 5, 7, 8]]
        assert (own[lists.lengths[kinds]][lists.kinds[rows]] == expected).all()
        assert len(own) == len(np.unique(expected, axis=0)) == len(np.unique(own, axis=0))
    assert lists.total_offsets[-1] == len(lists.totals)
    assert lists.kind_offsets[-1] == len(lists.lengths)


def test_hypotheses_of_one_length_share_their_totals() -> None:
    statistics = np.tile(np.array([3, 6, 1, 5, 1, 4, 1, 3, 6], np.int32), (20, 1))
    statistics[::2, 0] = 2
    lists = sentence_columns(np.zeros((20, 1)), statistics, np.array([0, 5, 20]))
    assert lists.kind_offsets.tolist() == [0, 2, 4]
    assert lists.matches.tolist() == [2, 3, 1, 1, 1, 1, 1, 1, 3, 2, 1, 1, 1, 1, 1, 1]
    assert lists.totals.tolist() == [[6, 5, 4, 3, 6]] * 2
    assert not lists.lengths.any()


def test_gains_need_no_counts() -> None:
    gains = np.array([0.5, -0.25, 0.125])
    lists = sentence_columns(np.zeros((3, 2)), np.zeros((3, 7)), np.array([0, 1, 3]), gains)
    assert lists.gains.tolist() == lists.statistics[:, 0].tolist() == gains.tolist()
    assert len(lists.matches) == len(lists.totals) == 0
    assert lists.kinds.tolist() == [0, 0, 1]
