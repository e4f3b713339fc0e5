from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from tests.tuning.optimisers.pools import random_pool
from tuning.metrics.bleu import bleu, log_sentence_bleu
from tuning.optimisers import mert
from tuning.optimisers.by_name import OPTIMIZER_NAMES, OptimizerName, load_optimizer
from tuning.optimisers.contract import Bounds, MertConfig, OptimizerConfig
from tuning.optimisers.envelope import Direction, best_step
from tuning.optimisers.mert import (
    _random_directions,
    _random_starts,
    _rounds,
    _Search,
    _small,
    _spread,
    optimize_mert,
)
from tuning.optimisers.nbest_pool import NBestPool, make_pool, weighted_scores

if TYPE_CHECKING:
    from tests.tuning.conftest import MosesIteration

Numbers = NDArray[np.float64]


def test_twenty_restarts_are_at_least_as_good_as_mosess(first_iteration: MosesIteration) -> None:
    start = first_iteration.start[None]
    result = optimize_mert(first_iteration.pool, start, OptimizerConfig(), seed=1, jobs=2)
    assert result.bleu >= first_iteration.mert_bleu
    assert len(result.restarts) >= 21
    assert list(result.trace) == sorted(result.trace)


@pytest.mark.slow
def test_so_they_are_on_merged_lists(second_iteration: MosesIteration) -> None:
    start = second_iteration.start[None]
    result = optimize_mert(second_iteration.pool, start, OptimizerConfig(), seed=1, jobs=2)
    assert result.bleu >= second_iteration.mert_bleu


def test_mosess_best_point_has_mosess_bleu(first_iteration: MosesIteration) -> None:
    numbers = re.search(r"Best point: (.*) =>", first_iteration.mert_log.read_text())
    assert numbers
    found = bleu(first_iteration.pool.statistics_of(np.array(numbers[1].split(), float)))
    assert found == pytest.approx(first_iteration.mert_bleu, abs=0.01)


def test_the_number_of_threads_and_a_second_run_change_nothing() -> None:
    pool = random_pool(3, n_sentences=40, n_features=5)
    config = OptimizerConfig(mert=MertConfig(n_restarts=9, n_directions=4))
    starts = np.ones((2, 5))
    first, *others = (optimize_mert(pool, starts, config, 7, jobs) for jobs in (1, 1, 3))
    assert all(other == first for other in others)
    assert optimize_mert(pool, starts, config, 8, 1) != first


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
@example(
    59028
)  # nearly parallel lines: the step, some -200,000, is no more exact than their slopes
def test_the_order_of_features_sentences_and_hypotheses_changes_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool = random_pool(seed, n_sentences=12)
    ids = np.repeat(pool.sentence_ids, np.diff(pool.offsets))
    # Of hypotheses with equal features the earlier one wins, so here there are none.
    distinct = pool.features + rng.uniform(-0.4, 0.4, pool.features.shape)
    pool = make_pool(pool.names, ids, distinct, pool.statistics)
    renamed = rng.permutation(ids.max() + 1)[ids]
    order, columns = rng.permutation(len(pool)), rng.permutation(3)
    names = tuple(pool.names[column] for column in columns)
    other = make_pool(
        names, renamed[order], pool.features[order][:, columns], pool.statistics[order]
    )
    weights, vector = rng.normal(size=3), rng.normal(size=3)
    assert other.statistics_of(weights[columns]).tolist() == pool.statistics_of(weights).tolist()
    one = best_step(pool, Direction.of(pool, vector), weighted_scores(pool.features, weights))
    two = best_step(
        other,
        Direction.of(other, vector[columns]),
        weighted_scores(other.features, weights[columns]),
    )
    assert two == pytest.approx(one, rel=1e-6, abs=1e-9)


def test_constant_and_frozen_columns_keep_their_share_of_the_start() -> None:
    pool = random_pool(5, n_sentences=30, n_features=4)
    features = pool.features.copy()
    features[:, 1] = 3.0
    ids = np.repeat(pool.sentence_ids, np.diff(pool.offsets))
    pool = make_pool(pool.names, ids, features, pool.statistics)
    start = np.array([0.4, 0.3, 0.2, 0.1])
    config = OptimizerConfig(("F3_0",), mert=MertConfig(n_restarts=3, n_directions=3))
    result = optimize_mert(pool, start[None], config, 1, 1)
    assert result.frozen == ("F1_0", "F3_0")
    assert result.weights["F1_0"] / result.weights["F3_0"] == pytest.approx(3)
    assert sum(map(abs, result.weights.values())) == pytest.approx(1)


def test_a_pool_where_nothing_can_move_gives_the_start_back() -> None:
    pool = random_pool(5)
    pool = make_pool(pool.names, np.arange(len(pool)), pool.features, pool.statistics)
    start = np.array([0.5, -0.25, 0.25])
    result = optimize_mert(pool, start[None], OptimizerConfig(mert=MertConfig(n_restarts=2)), 1, 1)
    assert list(result.weights.values()) == pytest.approx(start.tolist())


def test_a_frozen_name_that_is_no_feature_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no feature LM7_0 to freeze; there are F0_0"):
        optimize_mert(
            random_pool(1), np.ones((1, 3)), OptimizerConfig(frozen=("LM7_0",)), seed=1, jobs=1
        )


def test_negative_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="n_restarts is -1; the smallest value is 0"):
        MertConfig(n_restarts=-1)


def rugged_pool(seed: int, n_sentences: int = 10) -> NBestPool:
    """A hundred hypotheses a sentence, 14 features that know nothing: BLEU has many peaks."""
    rng = np.random.default_rng(seed)
    n = 100 * n_sentences
    lens = rng.integers(8, 25, n_sentences)
    statistics = np.empty((n, 9), np.int32)
    matches = statistics[:, 8] = np.repeat(lens, 100)
    for order in range(4):
        totals = statistics[:, 8] - order
        matches = rng.binomial(np.minimum(matches, totals), 0.7)
        statistics[:, 2 * order], statistics[:, 2 * order + 1] = matches, totals
    names = tuple(f"F{i}_0" for i in range(14))
    features = rng.normal(size=(n, 14))
    return make_pool(names, np.repeat(np.arange(n_sentences), 100), features, statistics)


def mosess_search(pool: NBestPool, seed: int) -> float:
    """BLEU after twenty restarts in the box from 0 to 1, the best axis first (mert/Optimizer.cpp:419)."""
    axes = [Direction.of(pool, axis) for axis in np.eye(14)]
    reached = []
    for start in np.random.default_rng(seed).random((20, 14)):
        weights, value = start, -np.inf
        while True:
            scores = weighted_scores(pool.features, weights)
            steps = [best_step(pool, axis, scores) for axis in axes]
            number = int(np.argmax([log_bleu for _, log_bleu in steps]))
            step, log_bleu = steps[number]
            if log_bleu <= value + 1e-9:
                break
            weights, value = weights + step * axes[number].vector, log_bleu
        reached.append(value)
    return float(100 * np.exp(max(reached)))


@pytest.mark.parametrize("seed", range(6))
def test_on_a_tiny_pool_it_finds_at_least_what_mosess_restarts_find(seed: int) -> None:
    pool = rugged_pool(seed)
    found = optimize_mert(pool, np.full((1, 14), 0.07), OptimizerConfig(), seed=1, jobs=2)
    assert found.bleu >= mosess_search(pool, seed)


def test_large_pools_have_no_more_restarts_than_asked_for() -> None:
    pool = rugged_pool(0)
    few = MertConfig(n_restarts=3, n_directions=0, small_pool_work=3000)
    config = OptimizerConfig(mert=few)
    assert len(optimize_mert(pool, np.ones((1, 14)), config, 1, 1).restarts) == 4
    more = OptimizerConfig(mert=replace(few, small_pool_work=5000))
    assert len(optimize_mert(pool, np.ones((1, 14)), more, 1, 1).restarts) == 6


def test_restarts_are_near_first_then_far_and_none_means_none() -> None:
    """A pool of 1000 hypotheses: work for 10,000 of them is that of ten restarts."""
    pool = rugged_pool(0)
    rounds = _rounds(pool, MertConfig(n_restarts=3, small_pool_work=10_000))
    assert rounds == [(1, mert.NEAR)] * 3 + [(1, mert.FAR)] * 7
    assert sum(size for size, _ in _rounds(pool, MertConfig(small_pool_work=10**6))) == 420
    assert not _rounds(pool, MertConfig(n_restarts=0, small_pool_work=10_000))


def pool_of_spreads(spreads: Numbers) -> NBestPool:
    """One sentence, features drawn with these standard deviations."""
    features = np.random.default_rng(1).normal(size=(2000, len(spreads)))
    features *= spreads / features.std(axis=0)
    names = tuple(f"F{i}_0" for i in range(len(spreads)))
    statistics = np.ones((2000, 9), np.int32)
    statistics[:, 8] = np.arange(2000)
    return make_pool(names, np.zeros(2000, np.int64), features, statistics)


def test_random_directions_move_the_scores_by_each_free_feature_about_equally() -> None:
    """The floor of a spread is a twentieth of their mean, 11.1 / 4, and 1e-9 where all are 0."""
    pool = pool_of_spreads(np.array([0.1, 1, 10, 0]))
    config = MertConfig(n_directions=5000)
    free = np.array([True, True, False, True])
    drawn = _random_directions(_spread(pool), free, config, (1, 2))
    expected = [1 / 0.13875, 1, 0, 1 / 0.13875]
    assert drawn.std(axis=0) == pytest.approx(expected, rel=0.05)
    assert _random_directions(_spread(pool), np.zeros(4, bool), config, (1, 2)).shape == (0, 4)
    flat = pool_of_spreads(np.zeros(1))
    drawn = _random_directions(_spread(flat), np.ones(1, bool), config, (1, 2))
    assert drawn.std() == pytest.approx(1e9, rel=0.05)


def test_restarts_are_as_far_away_as_asked_for() -> None:
    """600 features, so that the length of a row of noise is known; the distances are log-uniform."""
    spreads = np.repeat([1.0, 2.0], 300)
    pool, centre = pool_of_spreads(spreads), np.tile([0.5, -0.25], 300)
    free = np.arange(600) % 300 != 7
    points = _random_starts(_spread(pool), centre, 400, free, (0.02, 0.3), (1, 2))
    assert (points[:, ~free] == centre[~free]).all()
    noise = ((points - centre) / (0.375 * 1.5 / spreads))[:, free]
    distances = np.sqrt((noise**2).mean(axis=1))
    assert np.sort(distances)[[0, -1]] == pytest.approx([0.02, 0.3], rel=0.15)
    assert np.log(distances).mean() == pytest.approx(np.log(0.02 * 0.3) / 2, abs=0.15)
    narrow, wide = np.abs(noise[:, :299]).mean(), np.abs(noise[:, 299:]).mean()
    assert narrow == pytest.approx(wide, rel=0.05)


def test_each_use_has_random_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal seeds would make climbs go in the same order, or along what they started from."""
    pool, states = rugged_pool(0), []
    default_rng = np.random.default_rng

    def recorded(seed: tuple[int, ...]) -> np.random.Generator:
        generator = default_rng(seed)
        states.append(generator.bit_generator.state["state"]["state"])
        return generator

    monkeypatch.setattr(np.random, "default_rng", recorded)
    config = OptimizerConfig(mert=MertConfig(n_restarts=3, n_directions=1, small_pool_work=0))
    optimize_mert(pool, np.ones((2, 14)), config, 1, 1)
    # Two starts and three restarts are climbed from; the three rounds draw directions and starts.
    assert len(states) == len(set(states)) == 5 + 4 + 3


def climb_of(pool: NBestPool, config: MertConfig, to_beat: float) -> tuple[float, ...]:
    axes = [Direction.of(pool, axis) for axis in np.eye(14)]
    search = _Search(pool, axes, config, Bounds.of(pool.names, ()), 1, to_beat)
    peak = search.climb(np.full(14, 0.07), 0)
    assert np.abs(peak.weights).sum() == pytest.approx(14 * 0.07)
    assert peak.goodness == pytest.approx(float(bleu(pool.statistics_of(peak.weights))))
    return peak.trace


def test_a_climb_ends_with_a_sweep_that_gains_too_little_or_cannot_reach_the_best() -> None:
    """A last sweep that gains nothing leaves no trace."""
    pool, config = rugged_pool(3), MertConfig(min_gain=0.0)
    whole = climb_of(pool, config, 0.0)
    gains = np.diff(whole)
    assert len(gains) == 3
    assert gains[0] > gains[1] > gains[2] > 0
    assert climb_of(pool, replace(config, min_gain=gains[0]), 0.0) == whole[:3]
    assert climb_of(pool, replace(config, min_gain=1.001 * gains[0]), 0.0) == whole[:2]
    assert climb_of(pool, replace(config, min_gain=gains[1]), 0.0) == whole
    can_reach = whole[1] + 0.5 * gains[0]
    assert climb_of(pool, config, can_reach) == whole[:3]
    assert climb_of(pool, config, 1.00001 * can_reach) == whole[:2]


def test_a_start_without_any_match_of_four_words_is_left() -> None:
    statistics = np.array([[3, 5, 1, 4, 0, 3, 0, 2, 5], [5, 5, 4, 4, 3, 3, 2, 2, 5]], np.int32)
    pool = make_pool(("A_0", "B_0"), np.zeros(2, np.int64), np.eye(2), statistics)
    result = optimize_mert(
        pool, np.array([[0.6, 0.4]]), OptimizerConfig(mert=MertConfig(n_restarts=0)), 1, 1
    )
    assert (result.trace[0], result.bleu) == (0, pytest.approx(100))


def test_statistics_are_kept_small_with_room_for_differences() -> None:
    counts = np.array([[0, 127], [3, 5]], np.int32)
    assert (_small(counts).dtype, _small(counts).tolist()) == (np.int8, counts.tolist())
    assert _small(counts + 1).dtype == _small(counts - 200).dtype == np.int16
    assert _small(counts * 1000).dtype == np.int32
    assert _small(counts / 2).dtype == np.float64


def test_a_small_gain_is_taken() -> None:
    """One sentence of 2000 has a choice, of 4 or 5 right words of 5: less than a hundredth of BLEU."""
    right, wrong = [5, 5, 4, 4, 3, 3, 2, 2, 5], [4, 5, 3, 4, 2, 3, 1, 2, 5]
    statistics = np.array([wrong, *[right] * 2000], np.int32)
    ids = np.array([0, *range(2000)])
    features = np.zeros((2001, 2))
    features[:2] = np.eye(2)
    pool = make_pool(("A_0", "B_0"), ids, features, statistics)
    result = optimize_mert(
        pool, np.array([[0.6, 0.4]]), OptimizerConfig(mert=MertConfig(n_restarts=0)), 1, 1
    )
    assert 99.9 < result.trace[0] < 100
    assert result.bleu == pytest.approx(100, abs=1e-9)


@pytest.mark.parametrize("name", OPTIMIZER_NAMES)
def test_a_column_that_helps_gets_weight(name: OptimizerName) -> None:
    """Seven columns are noise, one tells sentence BLEU with noise as large as itself; all start at 0."""
    rng = np.random.default_rng(3)
    pool = rugged_pool(3, n_sentences=60)
    features = pool.features[:, :8].copy()
    quality = log_sentence_bleu(pool.statistics)
    helpful = (quality - quality.mean()) / quality.std()
    features[:, 5] = helpful + rng.normal(size=len(pool))
    pool = make_pool(pool.names[:8], np.repeat(np.arange(60), 100), features, pool.statistics)
    start = np.array([[0.5, 0.5, 0, 0, 0, 0, 0, 0]])
    result = load_optimizer(name)(pool, start, OptimizerConfig(), 1, 2)
    weights = [*result.weights.values()]
    assert int(np.argmax(np.abs(weights))) == 5
    assert weights[5] > 0
    assert result.bleu > float(bleu(pool.statistics_of(start[0]))) + 5
