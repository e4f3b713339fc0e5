"""Expected BLEU: against a plain transcription, its gradient against differences, and what it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from moses_bridge.errors import ConfigError
from tuning.bleu_stats import bleu
from tuning.nbest_pool import NBestPool, make_pool
from tuning.optimizer import OptimizerConfig
from tuning.xbleu import expected_log_bleu, optimize_xbleu, smooth_log_bleu


def pool_of(seed: int, n_sentences: int = 20, n_entries: int = 8) -> NBestPool:
    """Four columns; A tells how many n-grams are right with some noise, B and C are noise, D is constant."""
    rng = np.random.default_rng(seed)
    n = n_sentences * n_entries
    statistics = np.empty((n, 9), np.int32)
    lens = np.repeat(rng.integers(8, 20, n_sentences), n_entries)
    matches = rng.binomial(lens, 0.8)
    quality = matches / lens
    for order in range(4):
        matches = np.minimum(matches, lens - order) if order else matches
        statistics[:, 2 * order] = np.maximum(matches - 2 * order, 0)
        statistics[:, 2 * order + 1] = lens - order
    statistics[:, 8] = lens + 1
    features = rng.normal(size=(n, 4))
    features[:, 0] += 20 * quality
    features[:, 3] = 2.0
    ids = np.repeat(np.arange(n_sentences), n_entries)
    return make_pool(("A_0", "B_0", "C_0", "D_0"), ids, features, statistics)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_bleu_of_the_sums_weighted_by_the_softmax(seed: int) -> None:
    pool = pool_of(seed)
    weights = np.random.default_rng(seed).normal(size=4)
    sums = np.zeros(9)
    for first, last in zip(pool.offsets[:-1], pool.offsets[1:], strict=True):
        odds = np.exp(pool.features[first:last] @ weights)
        sums += odds / odds.sum() @ pool.statistics[first:last]
    found, _ = expected_log_bleu(pool.features, pool.statistics, pool.offsets, weights)
    assert 100 * np.exp(found) == pytest.approx(float(bleu(sums)), rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_its_gradient_is_that_of_differences(seed: int) -> None:
    pool = pool_of(seed)
    weights = np.random.default_rng(seed).normal(size=4)
    _, gradient = expected_log_bleu(pool.features, pool.statistics, pool.offsets, weights)
    for column, step in enumerate(np.eye(4) * 1e-6):
        above, below = (
            expected_log_bleu(pool.features, pool.statistics, pool.offsets, point)[0]
            for point in (weights + step, weights - step)
        )
        assert gradient[column] == pytest.approx((above - below) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("length", [8.0, 9.9, 10.1, 12.0])
def test_the_rounded_brevity_penalty_is_near_the_exact_one(length: float) -> None:
    sums = np.array([8, 10, 6, 9, 4, 8, 3, 7, length])
    log_bleu, gradient = smooth_log_bleu(sums)
    assert log_bleu == pytest.approx(np.log(bleu(sums) / 100), abs=np.log(2) / 200)
    moved = smooth_log_bleu(sums + np.eye(9)[8] * 1e-6)[0]
    assert gradient[8] == pytest.approx((moved - log_bleu) / 1e-6, rel=1e-3, abs=1e-6)


def test_sharp_scores_make_it_the_bleu_of_the_winners() -> None:
    pool = pool_of(1)
    weights = np.array([1.0, 0.5, -0.5, 0.0])
    sharp = expected_log_bleu(pool.features, pool.statistics, pool.offsets, 1e4 * weights)[0]
    assert 100 * np.exp(sharp) == pytest.approx(float(bleu(pool.statistics_of(weights))), rel=0.005)


def test_the_column_that_knows_gets_the_weight_whatever_the_seed() -> None:
    pool = pool_of(2, n_sentences=60)
    start = np.array([[-0.5, 0.5, 0.5, 0.1]])
    results = [optimize_xbleu(pool, start, OptimizerConfig(), seed, 2) for seed in (1, 2, 3)]
    weights = np.array([list(result.weights.values()) for result in results])
    assert (weights[:, 0] > 3 * np.abs(weights[:, 1:3]).max(axis=1)).all()
    assert np.ptp(weights / weights[:, :1], axis=0).max() < 0.02
    assert results[0].frozen == ("D_0",)
    assert results[0].bleu == pytest.approx(results[0].trace[-1])


def test_threads_change_nothing_and_frozen_and_bounded_weights_keep_to_theirs() -> None:
    pool = pool_of(3)
    start = np.array([[0.4, 0.3, 0.2, 0.1]])
    one, three = (optimize_xbleu(pool, start, OptimizerConfig(), 5, jobs) for jobs in (1, 3))
    assert one == three
    frozen = optimize_xbleu(pool, start, OptimizerConfig(frozen=("B_0",)), 5, 1)
    assert frozen.weights["B_0"] / frozen.weights["D_0"] == pytest.approx(3)
    bounded = optimize_xbleu(pool, start, OptimizerConfig(bounds=("B_0:0.25..0.3",)), 5, 1)
    assert 0.25 <= bounded.weights["B_0"] <= 0.3


def test_where_nothing_may_move_the_start_stays() -> None:
    config = OptimizerConfig(frozen=("A_0", "B_0", "C_0"))
    start = np.array([[0.4, 0.3, 0.2, 0.1]])
    result = optimize_xbleu(pool_of(4), start, config, 1, 1)
    assert list(result.weights.values()) == pytest.approx(start[0].tolist())
    with pytest.raises(ConfigError, match="no feature Z_0"):
        optimize_xbleu(pool_of(4), start, replace(config, frozen=("Z_0",)), 1, 1)
