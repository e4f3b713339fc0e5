"""Predictions of a scorer's values: planted ones, the normal equations, means by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rescorer.tables.prediction import KnownOfRows, fit_prediction


def phrases(n_words: NDArray[np.int64]) -> list[bytes]:
    return [b" ".join([b"w"] * n) for n in n_words]


def known_rows(rng: np.random.Generator, n_rows: int) -> KnownOfRows:
    n, m = rng.integers(1, 8, n_rows), rng.integers(1, 8, n_rows)
    return KnownOfRows(phrases(n), phrases(m), rng.normal(-3, 2, (n_rows, 4)))


def lengths(known: KnownOfRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n, m = ([len(text.split()) for text in texts] for texts in (known.sources, known.targets))
    return np.array(n), np.array(m)


def test_a_planted_prediction_is_found() -> None:
    known = known_rows(np.random.default_rng(1), 5000)
    n, m = lengths(known)
    logs = known.log_scores
    values = -1.0 + 0.5 * n - 2.0 * m + 0.7 * logs[:, 2] + 0.2 * logs[:, 3] - 0.1 * logs[:, 1]
    found = fit_prediction("lengths and scores", known, values)
    wanted = {"constant": -1.0, "source words": 0.5, "target words": -2.0, "log p(t | s)": 0.7}
    wanted |= {"log lex(t | s)": 0.2, "log lex(s | t)": -0.1, "d[3, 4]": 0.0}
    for name, value in wanted.items():
        assert found.coefficients[name] == pytest.approx(value, abs=1e-9)
    assert found.explained == pytest.approx(1.0)
    np.testing.assert_allclose(found.residual(known, values), 0.0, atol=1e-9)
    assert "log p(s | t)" not in found.coefficients


def test_coefficients_solve_the_normal_equations() -> None:
    rng = np.random.default_rng(2)
    known = known_rows(rng, 300)
    values = rng.normal(size=300)
    found = fit_prediction("lengths", known, values)
    rows = []
    for n, m in zip(*lengths(known), strict=True):
        cells = [float((n, m) == (i, j)) for i in range(1, 8) for j in range(1, 8)]
        rows.append([1.0, n, m, *cells])
    design = np.array(rows)
    penalty = np.diag([0.0] * 3 + [10.0] * 49)
    expected = np.linalg.solve(design.T @ design + penalty, design.T @ values)
    np.testing.assert_allclose([*found.coefficients.values()], expected, atol=1e-8)
    np.testing.assert_allclose(found.residual(known, values), values - design @ expected, atol=1e-8)


def test_what_is_left_does_not_depend_on_the_lengths() -> None:
    """A curved dependence, which no straight line has, is taken out pair of lengths by pair."""
    rng = np.random.default_rng(3)
    known = known_rows(rng, 40_000)
    n, m = lengths(known)
    values = -0.4 * (n - m) ** 2 - m + rng.normal(size=len(n))
    left = fit_prediction("lengths", known, values).residual(known, values)
    for i in range(1, 8):
        for j in range(1, 8):
            of_cell = left[(n == i) & (m == j)]
            assert (
                abs(of_cell.mean()) < 0.2
            )  # 816 rows on average: s.e. 0.035, shrunk by 10/826 of up to 14


def test_longer_phrases_follow_the_line() -> None:
    known = KnownOfRows([b"a"] * 40, phrases(np.arange(40) % 20 + 1), np.empty((40, 0)))
    values = -1.0 * (np.arange(40) % 20 + 1)
    left = fit_prediction("lengths", known, values).residual(known, values)
    np.testing.assert_allclose(left, 0.0, atol=1e-8)


def test_constant_values_leave_nothing() -> None:
    known = known_rows(np.random.default_rng(4), 100)
    found = fit_prediction("lengths", known, np.full(100, -3.0))
    assert found.explained == 1.0
    np.testing.assert_allclose(found.residual(known, np.full(100, -2.0)), 1.0, atol=1e-9)
