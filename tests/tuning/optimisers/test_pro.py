"""Tuning as ranking: the line searches towards what was learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from tests.tuning.optimisers.pools import RIGHT, WRONG, pool_of_choices
from tuning.metrics.bleu import bleu
from tuning.optimisers import pro
from tuning.optimisers.contract import Bounds, OptimizerConfig, ProConfig
from tuning.optimisers.nbest_pool import NBestPool, make_pool
from tuning.optimisers.pro import _best_between, _draw_pairs, _interpolate, _regress, optimize_pro


def test_sweeps_towards_learned_weights_never_lose_bleu() -> None:
    pool = pool_of_choices(40)
    start, targets = np.array([-0.5, 0.5, 0.0]), [np.array([0.4, 0.9, 0]), np.array([-0.1, -1, 0])]
    bounds = Bounds.of(pool.names, [])
    weights, trace = _interpolate(pool, start, targets, bounds, 0.0)
    singles = [pool.statistics_of(_best_between(pool, start, target, bounds)) for target in targets]
    assert trace == sorted(trace)
    assert trace[-1] == pytest.approx(float(bleu(pool.statistics_of(weights))))
    assert trace[-1] >= bleu(np.array(singles)).max()


def test_a_sweep_that_gains_too_little_is_the_last() -> None:
    """On hypotheses without sense, where lines help one another."""
    rng = np.random.default_rng(36)
    totals = np.tile([9, 8, 7, 6], (400, 1))
    statistics = np.full((400, 9), 9, np.int32)
    statistics[:, 0:-1:2], statistics[:, 1:-1:2] = rng.integers(1, totals + 1), totals
    features = rng.normal(size=(400, 6))
    pool = make_pool(tuple("ABCDEF"), np.repeat(np.arange(20), 20), features, statistics)
    start, *targets = rng.normal(size=(5, 6))
    bounds = Bounds.of(pool.names, [])
    _, whole = _interpolate(pool, start, targets, bounds, 0.0)
    gains = np.diff(whole)
    assert len(gains) == 3
    first, second, third = gains
    assert first > second > third > 0
    assert _interpolate(pool, start, targets, bounds, first)[1] == whole[:3]
    assert _interpolate(pool, start, targets, bounds, second)[1] == whole
    weights, trace = _interpolate(pool, start, targets, bounds, 1.001 * first)
    assert trace == whole[:2]
    short, long = (
        optimize_pro(pool, targets[0][None], OptimizerConfig(pro=ProConfig(min_gain)), 2, 1).trace
        for min_gain in (99.0, 0.0)
    )
    assert len(long) > 2 and short == long[:2]
    assert bleu(pool.statistics_of(weights)) == pytest.approx(whole[1])


def test_pairs_are_those_of_hopkins_and_may() -> None:
    """Section 3.2: of 5000 pairs those that differ by 0.05, of these the 50 that differ most."""
    n_hypotheses, n_sentences = 4, 500
    statistics = np.tile(np.array(RIGHT, np.int32), (n_hypotheses * n_sentences, 1))
    ids = np.repeat(np.arange(n_sentences), n_hypotheses)
    features = np.arange(n_hypotheses * n_sentences)[:, None].astype(float)
    pool = make_pool(("A_0",), ids, features, statistics)
    # By turns: pairs of 0.5 beside smaller ones, and of 0.0625 beside too small ones.
    quality = np.tile([0.25, 0.0, 0.5, 0.0, 0.75, 0.75, 0.8125, 0.78125], n_sentences // 2)
    pairs = _draw_pairs(pool, quality, np.random.default_rng(1))
    assert pairs.shape == (125 * 50, 2)
    sentences = ids[pairs]
    assert (sentences[:, 0] == sentences[:, 1]).all()
    chosen, n_kept = np.unique(sentences[:, 0], return_counts=True)
    assert (len(chosen), set(n_kept.tolist())) == (125, {50})
    gaps = quality[pairs[:, 0]] - quality[pairs[:, 1]]
    is_first = sentences[:, 0] % 2 == 0
    assert set(gaps[is_first].tolist()) == {0.5}
    assert set(gaps[~is_first].tolist()) == {0.0625}


def test_pairs_are_ranked_by_sentence_bleu_with_a_longer_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By hand: one more in the counts of orders above 1 and in the words of the reference."""
    seen: list[NDArray[np.float64]] = []

    def watch(
        pool: NBestPool, quality: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        seen.append(quality)
        return _draw_pairs(pool, quality, rng)

    monkeypatch.setattr(pro, "_draw_pairs", watch)
    statistics = np.array([[2, 2, 1, 1, 0, 0, 0, 0, 4], WRONG], np.int32)
    pool = make_pool(("A_0", "B_0"), np.zeros(2, np.int64), np.eye(2), statistics)
    optimize_pro(pool, np.array([[0.5, 0.5]]), OptimizerConfig(), 1, 1)
    short = np.exp(1 - 5 / 2)
    wrong = (3 / 6 * 2 / 6 * 2 / 5 * 2 / 4) ** 0.25 * np.exp(1 - 7 / 6)
    assert seen[0].tolist() == pytest.approx([short, wrong])


def test_few_sentences_are_all_drawn_from_and_the_least_difference_counts() -> None:
    pool = pool_of_choices(120)
    quality = np.tile([0.05, 0.0], 120)
    pairs = _draw_pairs(pool, quality, np.random.default_rng(1))
    assert len(np.unique(pairs[:, 0])) == 100
    assert len(_draw_pairs(pool, 0.999 * quality, np.random.default_rng(1))) == 0


def test_the_regression_is_the_penalised_maximum_of_its_likelihood() -> None:
    """Each difference and its mirror image, by s.d., and half the squared length of the weights."""
    pool = pool_of_choices(40)
    pool = replace(pool, features=0.1 * pool.features)
    pairs = np.random.default_rng(2).integers(0, 80, (60, 2))
    start, free = np.array([0.2, -0.4, 0.4]), np.array([True, True, False])
    x = (pool.features[pairs[:, 0]] - pool.features[pairs[:, 1]])[:, :2]
    spread = x.std(axis=0)

    def loss(weights: NDArray[np.float64]) -> float:
        return float(weights @ weights / 2 + 2 * np.logaddexp(0, -(x / spread) @ weights).sum())

    found = minimize(loss, np.zeros(2), tol=1e-9).x / spread
    expected = 0.6 * found / np.abs(found).sum()
    learned = _regress(pool, pairs, start, free)
    assert learned.tolist() == pytest.approx([*expected, 0.4], abs=1e-3)
    assert _regress(pool, pairs[:0], start, free).tolist() == start.tolist()
    assert _regress(pool, np.array([[3, 3], [5, 5]]), start, free).tolist() == [0, 0, 0.4]


def test_a_column_that_is_equal_in_all_pairs_learns_nothing() -> None:
    pool = pool_of_choices(40)
    pairs = np.arange(80).reshape(-1, 2)
    learned = _regress(pool, pairs, np.array([0.2, -0.4, 0.4]), np.ones(3, bool))
    assert learned[2] == 0
    assert np.abs(learned).sum() == pytest.approx(1)


def test_the_start_is_scaled_to_a_sum_of_1_and_every_sample_is_reported() -> None:
    pool = pool_of_choices(30)
    one, scaled = (
        optimize_pro(pool, start, OptimizerConfig(), 5, 1)
        for start in (np.array([[-0.5, 0.5, 0.2]]), np.array([[-5, 5, 2.0]]))
    )
    assert one.weights == pytest.approx(scaled.weights)
    assert len(one.restarts) == 16
    frozen = OptimizerConfig(frozen=("A_0", "B_0"))
    assert not optimize_pro(pool, np.array([[-0.5, 0.5, 0.2]]), frozen, 5, 1).restarts
