"""Bounds of weights: steps against the box itself, and optimisers that stay inside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moses_bridge.base.errors import ConfigError
from tuning.metrics.bleu import bleu
from tuning.optimisers.by_name import OptimizerName, load_optimizer
from tuning.optimisers.contract import Bounds, MertConfig, OptimizerConfig
from tuning.optimisers.envelope import Direction, best_step
from tuning.optimisers.nbest_pool import NBestPool, make_pool, weighted_scores

NAMES = ("LM0_0", "T0_0", "T0_1")


def random_pool(seed: int, n_sentences: int = 30) -> NBestPool:
    rng = np.random.default_rng(seed)
    n = 5 * n_sentences
    features = rng.normal(size=(n, 3))
    totals = np.tile([9, 8, 7, 6], (n, 1))
    statistics = np.empty((n, 9), np.int32)
    statistics[:, 0:-1:2], statistics[:, 1:-1:2] = rng.integers(1, totals + 1), totals
    statistics[:, -1] = rng.integers(7, 11, n)
    return make_pool(NAMES, np.repeat(np.arange(n_sentences), 5), features, statistics)


def test_bounds_are_read() -> None:
    bounds = Bounds.of(NAMES, ("T0_1:-0.5..1", "LM0_0:0.."))
    assert bounds.least.tolist() == [0, -np.inf, -0.5]
    assert bounds.most.tolist() == [np.inf, np.inf, 1]
    assert bounds.bind
    assert not Bounds.of(NAMES, ()).bind
    held = Bounds.of(NAMES, ("T0_0:0.5..0.5",))
    assert held.clip(np.array([-9.0, 7, 9])).tolist() == [-9, 0.5, 9]


def test_weights_are_scaled_where_no_bound_holds_them_to_their_scale() -> None:
    weights, free = np.array([0.5, -1.0, 2.5]), Bounds.of(NAMES, ())
    assert free.scaled(weights, 1.0).tolist() == [0.125, -0.25, 0.625]
    assert free.scaled(weights, 8.0).tolist() == [1, -2, 5]
    assert free.scaled(np.zeros(3), 1.0).tolist() == [0, 0, 0]
    assert Bounds.of(NAMES, ("T0_1:..9",)).scaled(weights, 1.0).tolist() == weights.tolist()


def test_steps_by_hand() -> None:
    """A weight outside its bounds, which no clipping has put inside, lets no step lead farther out."""
    bounds = Bounds.of(NAMES, ("LM0_0:0..1", "T0_0:..0.5"))
    weights = np.array([0.25, 0.0, 7.0])
    assert bounds.steps(weights, np.array([0.5, 0.0, 3.0])) == (-0.5, 1.5)
    assert bounds.steps(weights, np.array([0.5, 1.0, 3.0])) == (-0.5, 0.5)
    assert bounds.steps(weights, np.array([0.0, -2.0, 0.0])) == (-0.25, np.inf)
    assert bounds.steps(weights, np.array([0.0, 0.0, 3.0])) == (-np.inf, np.inf)
    outside = np.array([-1.0, 0.0, 0.0])
    assert bounds.steps(outside, np.array([-0.5, 0.0, 0.0])) == (-4, 0)
    assert bounds.steps(outside, np.array([0.5, 0.0, 0.0])) == (0, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LM0_0", "found the bounds 'LM0_0', expected NAME:LEAST..MOST"),
        ("LM0_0:a..1", "found the bounds 'LM0_0:a..1'"),
        ("LM0_0:1..0", r"LM0_0: found the bounds 1..0, expected rising"),
        ("LM0_0:nan..0", "found the bounds nan..0"),
        ("LM7_0:0..1", "no feature LM7_0 to bound; there are LM0_0, T0_0, T0_1"),
    ],
)
def test_malformed_bounds(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Bounds.of(NAMES, (text,))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_steps_end_at_the_sides_of_the_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = Bounds.of(NAMES, ("LM0_0:0..1", "T0_0:-1..0.5"))
    weights = rng.uniform([0, -1, -9], [1, 0.5, 9])
    vector = rng.integers(-1, 2, 3).astype(float)
    for x, outer in zip(bounds.steps(weights, vector), (-1e-6, 1e-6), strict=True):
        if np.isfinite(x):
            at, beyond = weights + x * vector, weights + (x + outer) * vector
            assert np.allclose(bounds.clip(at), at)
            assert np.abs(bounds.clip(beyond) - beyond).max() > 1e-7
        else:
            assert np.allclose(vector[:2], 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_bounded_line_search_is_the_best_of_a_fine_grid(seed: int) -> None:
    pool = random_pool(seed, 4)
    rng = np.random.default_rng(seed)
    weights, vector = rng.normal(size=3), rng.normal(size=3)
    direction, scores = Direction.of(pool, vector), weighted_scores(pool.features, weights)
    step, log_bleu = best_step(pool, direction, scores, -0.5, 0.25)
    assert -0.5 <= step <= 0.25
    found = bleu(pool.statistics_of(weights + step * vector))
    assert found == pytest.approx(100 * np.exp(log_bleu))
    grid = [bleu(pool.statistics_of(weights + x * vector)) for x in np.linspace(-0.5, 0.25, 301)]
    assert found >= max(grid) - 1e-9


@pytest.mark.parametrize("name", ["mert", "kbmira", "pro"])
def test_optimisers_stay_in_the_box(name: OptimizerName) -> None:
    pool = random_pool(3)
    bounds = ("LM0_0:0..0.3", "T0_0:-0.2..-0.1")
    config = OptimizerConfig(bounds=bounds, mert=MertConfig(n_restarts=4, n_directions=3))
    result = load_optimizer(name)(pool, np.array([[0.5, 0.5, 0.5]]), config, 1, 1)
    assert 0 <= result.weights["LM0_0"] <= 0.3
    assert -0.2 <= result.weights["T0_0"] <= -0.1
    start = bleu(pool.statistics_of(np.array([0.3, -0.1, 0.5])))
    # MIRA goes by the margins of sentences: on random hypotheses BLEU may fall.
    assert result.bleu >= start or name == "kbmira"
    assert result.bleu == pytest.approx(
        float(bleu(pool.statistics_of(np.array([*result.weights.values()]))))
    )
