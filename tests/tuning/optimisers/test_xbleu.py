"""Expected BLEU: against a plain transcription, its gradient against differences, and what it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import Progress
from tuning.metrics.bleu import bleu
from tuning.optimisers.contract import Bounds, OptimizerConfig
from tuning.optimisers.nbest_pool import NBestPool, make_pool, spread_within
from tuning.optimisers.xbleu import (
    _climb,
    _expect,
    _gradient,
    _objective,
    _random_starts,
    expected_log_bleu,
    optimize_xbleu,
    smooth_log_bleu,
)

Numbers = NDArray[np.float64]


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


def test_the_compiled_sums_are_those_of_plain_python_which_sees_the_ends_of_arrays() -> None:
    pool = pool_of(1)
    weights, by_sum = np.array([0.5, -0.25, 1.0, 0.0]), np.arange(9.0)
    found = []
    for expect, differentiate in (
        (_expect, _gradient),
        (getattr(_expect, "py_func", _expect), getattr(_gradient, "py_func", _gradient)),
    ):
        probabilities, sums, gradient = np.empty(len(pool)), np.zeros(9), np.zeros(4)
        expect(pool.features, pool.statistics, pool.offsets, weights, probabilities, sums)
        rest = pool.offsets, probabilities, by_sum, gradient
        differentiate(pool.features, pool.statistics, *rest)
        found.append([*probabilities, *sums, *gradient])
    assert found[0] == pytest.approx(found[1])


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


@pytest.mark.parametrize("sharpness", [1.0, 3.0])
def test_the_gradient_of_a_climb_is_that_of_differences(sharpness: float) -> None:
    """The scale of the weights is divided out, and one weight is not free."""
    pool, weights = pool_of(1), np.array([0.1, -0.3, 0.2, 0.1])
    free, spread = np.array([True, True, False, True]), spread_within(pool)
    objective, point = _objective(pool, weights, spread, free, sharpness), (weights * spread)[free]
    _, gradient = objective(point)
    for column, step in enumerate(np.eye(3) * 1e-6):
        above, below = objective(point + step)[0], objective(point - step)[0]
        assert gradient[column] == pytest.approx((above - below) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("length", [8.0, 9.9, 10.1, 12.0])
def test_the_rounded_brevity_penalty_is_near_the_exact_one(length: float) -> None:
    sums = np.array([8, 10, 6, 9, 4, 8, 3, 7, length])
    log_bleu, gradient = smooth_log_bleu(sums)
    assert log_bleu == pytest.approx(np.log(bleu(sums) / 100), abs=np.log(2) / 200)
    for place, step in enumerate(np.eye(9) * 1e-6):
        slope = (smooth_log_bleu(sums + step)[0] - smooth_log_bleu(sums - step)[0]) / 2e-6
        assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-8)


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


def test_the_spread_is_that_within_sentences() -> None:
    """By hand: columns that differ between sentences alone are constant, whatever their values."""
    features = np.array([[1.0, 5, 0], [3, 5, 0], [0, -7, 1], [0, -7, 4], [0, -7, 7]])
    pool = make_pool(
        ("A_0", "B_0", "C_0"), np.array([0, 0, 1, 1, 1]), features, np.ones((5, 9), np.int32)
    )
    expected = [np.sqrt(2 / 5), 1, np.sqrt(18 / 5)]
    assert spread_within(pool).tolist() == pytest.approx(expected)


def test_random_starts_are_as_far_from_the_first_as_it_is_from_0() -> None:
    """In units of the scores: 3000 features, so that the length of the noise is known."""
    spread = np.repeat([0.5, 4.0], 1500)
    centre, free = np.tile([0.5, -1.5], 1500), np.arange(3000) % 1500 != 7
    points = _random_starts(centre, spread, free, 1)
    assert points.shape == (2, 3000)
    assert (points[:, ~free] == centre[~free]).all()
    noise = (points - centre) * spread
    for half in (slice(0, 1500), slice(1500, 3000)):
        within = noise[:, half][:, free[half]].std()
        assert within == pytest.approx((0.5 + 1.5) / 2 * (0.5 + 4) / 2, rel=0.05)


def objective_of(
    pool: NBestPool, weights: Numbers, free: NDArray[np.bool_]
) -> tuple[float, Numbers]:
    """Minus log of expected BLEU at sharpness 3, in units of the spread."""
    spread = spread_within(pool)
    value, gradient = _objective(pool, weights, spread, free, 3.0)((weights * spread)[free])
    return value, gradient


def test_scores_are_sharpened_in_units_of_their_spread_whatever_the_scale_of_the_weights() -> None:
    pool, weights = pool_of(5), np.array([0.4, -0.3, 0.2, 0.1])
    free = np.array([True, True, False, False])
    scaled = weights * spread_within(pool)
    used = 3 * weights / np.sqrt((scaled**2).sum())
    expected = expected_log_bleu(pool.features, pool.statistics, pool.offsets, used)[0]
    value, gradient = objective_of(pool, weights, free)
    assert value == pytest.approx(-expected)
    assert objective_of(pool, 100 * weights, free)[0] == pytest.approx(value)
    for column, step in enumerate(np.eye(4)[:2] * 1e-6 / spread_within(pool)):
        above, below = (objective_of(pool, weights + x * step, free)[0] for x in (1, -1))
        assert gradient[column] == pytest.approx((above - below) / 2e-6, abs=1e-7)
    assert gradient.shape == (2,)
    assert np.isfinite(objective_of(pool, np.zeros(4), free)[0])


def test_a_climb_ends_where_expected_bleu_is_flat() -> None:
    """At sharpness 30, the last of four: the value is that of the weights, and no step raises it."""
    pool, free = pool_of(6, n_sentences=40), np.array([True, True, True, False])
    start, bounds = np.array([0.4, 0.3, 0.2, 0.1]), Bounds.of(pool.names, ())
    spread = spread_within(pool)
    with Progress("test") as progress:
        value, weights, trace = _climb(pool, start, spread, free, bounds, progress)
        still = _climb(pool, start, spread, ~free & free, bounds, progress)
    assert len(trace) == 5
    assert trace[0] == pytest.approx(float(bleu(pool.statistics_of(start))))
    assert trace[-1] == pytest.approx(float(bleu(pool.statistics_of(weights))))
    used = 30 * weights / np.sqrt(((weights * spread) ** 2).sum())
    flat = expected_log_bleu(pool.features, pool.statistics, pool.offsets, used)[0]
    assert value == pytest.approx(flat)
    for step in np.eye(4)[:3] * 0.01:
        for other in (weights + step, weights - step):
            used = 30 * other / np.sqrt(((other * spread) ** 2).sum())
            found = expected_log_bleu(pool.features, pool.statistics, pool.offsets, used)[0]
            assert found <= value + 1e-6
    assert (still[0], still[2]) == (trace[0], trace[:1])
    assert still[1].tolist() == start.tolist()


def test_the_first_start_and_two_random_ones_are_climbed_from_and_the_best_is_taken() -> None:
    pool = pool_of(3)
    starts = np.array([[0.4, 0.3, 0.2, 0.1], [-0.4, 0.3, 0.2, 0.1]])
    one = optimize_xbleu(pool, starts, OptimizerConfig(), 5, 1)
    assert one == optimize_xbleu(pool, starts[:1], OptimizerConfig(), 5, 1)
    assert len(one.restarts) == 3
    free, spread = ~pool.constant, spread_within(pool)
    points = [starts[0], *_random_starts(starts[0], spread, free, 5)]
    with Progress("test") as progress:
        climbs = [
            _climb(pool, point, spread, free, Bounds.of(pool.names, ()), progress)
            for point in points
        ]
    values, ends, _ = zip(*climbs, strict=True)
    best = ends[int(np.argmax(values))]
    assert [*one.weights.values()] == pytest.approx((best / np.abs(best).sum()).tolist())


def test_sums_without_a_match_have_a_finite_value() -> None:
    """Counts below 1e-9 are taken for 1e-9: the logarithm of the precision of 4-grams is that of 1e-9."""
    value, gradient = smooth_log_bleu(np.array([1.0, 1, 1, 1, 1, 1, 0, 1, 0.5]))
    assert value == pytest.approx(np.log(1e-9) / 4, rel=1e-3)
    assert np.isfinite(gradient).all()
    value, _ = smooth_log_bleu(np.array([1.0, 1, 1, 1, 1, 1, 0, 0, 0.5]))
    assert value == pytest.approx(0, abs=1e-6)
