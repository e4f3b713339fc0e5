"""Fisher's exact test: scipy's, fractions by hand, and the value of a pair seen once."""

from __future__ import annotations

from fractions import Fraction
from math import comb, log

import numpy as np
import pytest
from scipy.stats import fisher_exact

from moses_bridge.tables.prune import significance


def of(joint: int, source: int, target: int, n: int) -> float:
    arrays = (np.array([float(count)]) for count in (joint, source, target))
    return float(significance(*arrays, n)[0])


@pytest.mark.parametrize(
    ("joint", "source", "target", "n"),
    [(1, 1, 1, 1000), (3, 5, 4, 200), (1, 50, 40, 200), (9, 50, 40, 200), (30, 40, 31, 5000)],
)
def test_it_is_that_of_scipy(joint: int, source: int, target: int, n: int) -> None:
    table = [[joint, source - joint], [target - joint, n - source - target + joint]]
    expected = fisher_exact(table, alternative="greater").pvalue
    assert of(joint, source, target, n) == pytest.approx(-np.log(expected), rel=1e-9)


@pytest.mark.parametrize(
    ("joint", "source", "target", "n"), [(2, 3, 4, 9), (0, 3, 4, 9), (4, 6, 7, 9), (5, 6, 7, 9)]
)
def test_it_is_the_sum_of_fractions(joint: int, source: int, target: int, n: int) -> None:
    tail = sum(
        Fraction(comb(source, k) * comb(n - source, target - k), comb(n, target))
        for k in range(joint, min(source, target) + 1)
    )
    assert of(joint, source, target, n) == pytest.approx(-log(tail), abs=1e-9)


def test_a_pair_seen_once_has_log_n() -> None:
    """Johnson et al. (2007), section 3.1: the constant alpha."""
    assert of(1, 1, 1, 1_000_000) == pytest.approx(log(1e6))


def test_very_sure_pairs_do_not_become_infinite() -> None:
    value = of(5000, 5000, 5000, 10_000_000)
    assert np.isfinite(value) and value > 30_000


def test_equal_counts_are_computed_once_and_put_back() -> None:
    counts = np.array([[1, 9, 9], [2, 5, 3], [1, 9, 9], [1, 1, 1]], np.float64)
    found = significance(*counts.T, 100)
    assert found[0] == found[2] < found[1]
    assert found[3] == pytest.approx(log(100))
