from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rescorer.views.cosine import nearest, unit_rows


def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """By loops in float64."""
    product = sum(float(a) * float(b) for a, b in zip(one, other, strict=True))
    squares = [sum(float(a) ** 2 for a in vector) for vector in (one, other)]
    return product / math.sqrt(squares[0] * squares[1])


@pytest.mark.parametrize("block_rows", [1, 7, 50])
@pytest.mark.parametrize("n_best", [1, 5, 80])
def test_nearest_is_what_loops_find(block_rows: int, n_best: int) -> None:
    rng = np.random.default_rng(3)
    queries = rng.normal(size=(4, 6)).astype(np.float32)
    candidates = rng.normal(size=(50, 6)).astype(np.float32)
    units = unit_rows(candidates)
    blocks = [units[first : first + block_rows] for first in range(0, 50, block_rows)]
    for query, found in zip(queries, nearest(queries, blocks, n_best), strict=True):
        cosines = [cosine(query, candidate) for candidate in candidates]
        order = sorted(range(50), key=lambda row: -cosines[row])[:n_best]
        assert found.rows.tolist() == order
        np.testing.assert_allclose(found.cosines, [cosines[row] for row in order], atol=1e-6)


@pytest.mark.parametrize("block_rows", [1, 2, 6])
def test_equal_candidates_come_in_their_order(block_rows: int) -> None:
    candidates = np.array([[0, 1], [1, 0], [2, 0], [0, 3], [4, 0], [-1, 0]], np.float32)
    units = unit_rows(candidates)
    blocks = [units[first : first + block_rows] for first in range(0, 6, block_rows)]
    (found,) = nearest(np.array([[5, 0]], np.float32), blocks, 2)
    assert found.rows.tolist() == [1, 2]


def test_no_candidates() -> None:
    (found,) = nearest(np.ones((1, 3), np.float32), [], 2)
    assert len(found.rows) == len(found.cosines) == 0


def test_a_row_of_zeros_stays() -> None:
    np.testing.assert_array_equal(
        unit_rows(np.array([[0, 0], [3, 4]], np.float32)), np.float32([[0, 0], [0.6, 0.8]])
    )
