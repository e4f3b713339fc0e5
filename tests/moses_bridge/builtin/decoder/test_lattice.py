from __future__ import annotations

import numpy as np
import pytest

from moses_bridge.builtin.decoder.hypotheses import NONE, make_hypotheses
from moses_bridge.builtin.decoder.lattice import Paths, best_paths, take_paths
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.options import UNKNOWN_ROW, Options, no_costs
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model


@pytest.fixture
def paths() -> Paths:
    """Three paths of 2, 0 and 3 phrases."""
    return Paths(
        np.array([0, 2, 2, 5]),
        np.array([7, 8, 1, 2, 3], np.int32),
        np.array([0.5, 0.25, 0.125]),
        np.arange(6.0).reshape(3, 2),
    )


@pytest.mark.parametrize(
    ("numbers", "options", "starts"),
    [
        ([0, 1, 2], [7, 8, 1, 2, 3], [0, 2, 2, 5]),
        ([2, 0], [1, 2, 3, 7, 8], [0, 3, 5]),
        ([1], [], [0, 0]),
    ],
)
def test_paths_can_be_taken_in_another_order(
    paths: Paths, numbers: list[int], options: list[int], starts: list[int]
) -> None:
    taken = take_paths(paths, np.array(numbers))
    assert (taken.options.tolist(), taken.phrase_starts.tolist()) == (options, starts)
    assert taken.totals.tolist() == paths.totals[numbers].tolist()
    assert taken.features.tolist() == paths.features[numbers].tolist()


def test_a_path_that_is_not_there_is_an_error(paths: Paths) -> None:
    with pytest.raises(IndexError):
        take_paths(paths, np.array([3]))


def one_word_options(n: int, first_word: int) -> Options:
    """Options of a sentence of one word, each a different unknown word."""
    return Options(
        n_words=1,
        max_words=1,
        span_starts=np.array([0, n], np.int32),
        rows=np.full(n, UNKNOWN_ROW),
        starts=np.zeros(n, np.int32),
        ends=np.ones(n, np.int32),
        stateless_scores=np.zeros(n),
        estimates=np.zeros(n),
        reordering=np.zeros((n, 6)),
        between=np.zeros(2),
        word_starts=np.arange(n + 1, dtype=np.int32),
        words=np.arange(first_word, first_word + n, dtype=np.int32),
        lm_words=np.zeros(n, np.int32),
        suffix_scores=np.zeros(n),
        context_sizes=np.zeros(n, np.int32),
        future_costs=no_costs(1),
    )


def test_the_best_paths_are_found_among_more_than_are_remembered(toy: Model) -> None:
    """A hypothesis has 300 arcs, and 12 paths are requested: their heap has no room for all."""
    n, n_best = 301, 12
    scores = np.random.default_rng(5).permutation(n).astype(float)
    scores[0] = n  # the hypothesis itself is the best
    hyps = make_hypotheses(n, 1, 3, 0)
    hyps.previous[1 : n + 1], hyps.options[1 : n + 1] = 0, np.arange(n)
    hyps.scores[1 : n + 1] = scores
    hyps.arcs[1 : n + 1], hyps.next_arcs[1 : n + 1] = NONE, NONE
    hyps.arcs[1], hyps.next_arcs[2:n] = 2, np.arange(3, n + 1)
    weighted = make_weighted_model(toy, toy.weight_vector(None))
    options = one_word_options(n, len(toy.target_words))
    finals = np.array([1], np.int32)
    found = best_paths(finals, n_best, n_best, hyps, options, weighted)
    assert found.options.tolist() == np.argsort(-scores)[:n_best].tolist()
