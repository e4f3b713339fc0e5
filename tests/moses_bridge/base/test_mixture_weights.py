"""Fitted weights against values by hand and a search of all weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from moses_bridge.base.mixture_weights import (
    LEAST_WEIGHT,
    Observations,
    cross_entropy,
    fitted_weights,
)


def observations(
    values: list[list[float]], masses: list[list[float]] | None = None
) -> Observations:
    ones = np.ones((len(values), len(values[0])))
    return Observations(
        np.array(values), ones if masses is None else np.array(masses), np.ones(len(values))
    )


def test_two_models_by_hand() -> None:
    # (0.5 w + 0.1 (1 - w)) (0.2 w + 0.8 (1 - w)) = (0.1 + 0.4 w) (0.8 - 0.6 w) is largest at w = 0.26 / 0.48
    seen = observations([[0.5, 0.1], [0.2, 0.8]])
    weights = fitted_weights(seen)
    assert weights == pytest.approx([0.26 / 0.48, 0.22 / 0.48], abs=1e-6)
    bits = -np.log2((0.1 + 0.4 * 0.26 / 0.48) * (0.8 - 0.6 * 0.26 / 0.48)) / 2
    assert cross_entropy(seen, weights) == pytest.approx(bits, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["plain", "known", "counts"])
def test_no_weights_of_a_grid_are_better(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    masses = np.ones((40, 3))
    if kind == "known":
        masses = (rng.random((40, 3)) < 0.7).astype(float)
        masses[:, 0] = 1
    if kind == "counts":
        masses = rng.integers(1, 50, (40, 3)).astype(float)
    seen = Observations(
        rng.random((40, 3)) ** 3 * masses, masses, rng.integers(1, 5, 40).astype(float)
    )
    best = cross_entropy(seen, fitted_weights(seen))
    steps = np.arange(0.025, 1, 0.025)
    grid = [(a, b, 1 - a - b) for a, b in itertools.product(steps, steps) if a + b < 0.99]
    assert best <= min(cross_entropy(seen, np.array(weights)) for weights in grid) + 1e-9


def test_observations_of_no_model_do_not_count() -> None:
    seen = observations([[0.5, 0.1], [0.2, 0.8]])
    more = observations([[0.5, 0.1], [0, 0], [0.2, 0.8]])
    assert fitted_weights(more) == pytest.approx(fitted_weights(seen))
    with pytest.raises(ValueError, match="no model knows"):
        fitted_weights(observations([[0, 0]]))


def test_a_model_that_never_has_a_say_gets_the_least_weight() -> None:
    seen = observations([[0.5, 0], [0.2, 0]], [[1, 0], [1, 0]])
    assert fitted_weights(seen) == pytest.approx([1, LEAST_WEIGHT])


def test_no_weight_is_zero() -> None:
    weights = fitted_weights(observations([[0.5, 0.0]]))
    assert weights == pytest.approx([1, LEAST_WEIGHT], rel=1e-5)
