from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.ranking import RUN, ranking


@njit
def _ranking(scores: Any) -> Any:
    return ranking(scores)


@pytest.mark.parametrize(
    "n_scores", [0, 1, 2, RUN, RUN + 1, 2 * RUN - 1, 2 * RUN, 5 * RUN + 3, 1000]
)
@pytest.mark.parametrize("n_values", [1, 3, 10**6])
def test_the_order_is_that_of_numpy(n_scores: int, n_values: int) -> None:
    scores = np.random.default_rng(n_scores).integers(n_values, size=n_scores) - 0.5
    _check(scores)


def test_scores_already_in_order_or_turned_around() -> None:
    rising = np.arange(100.0)
    for scores in (rising, rising[::-1].copy(), np.concatenate([rising, rising])):
        _check(scores)


def test_the_lowest_scores_are_last() -> None:
    _check(np.array([-np.inf, 1.0, -np.inf, np.inf, 0.0, -0.0]))


def _check(scores: NDArray[np.float64]) -> None:
    assert _ranking(scores).tolist() == np.argsort(-scores, kind="stable").tolist()
