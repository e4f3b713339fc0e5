"""The exact line search: against brute force, and by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tests.tuning.optimisers.pools import random_pool
from tuning.metrics.bleu import bleu
from tuning.optimisers.envelope import Direction, best_step, envelope, hull_candidates
from tuning.optimisers.nbest_pool import NBestPool, make_pool, weighted_scores

Numbers = NDArray[np.float64]


def winners_of(slopes: Numbers, heights: Numbers) -> tuple[list[int], list[float]]:
    """The lines on the envelope of one sentence, and where each starts."""
    candidates, winners, corners = np.empty(99, np.int32), np.empty(99, np.int32), np.empty(99)
    n_candidates = hull_candidates(slopes, heights, *ends_of(slopes), candidates)
    n_winners = envelope(slopes, heights, candidates, n_candidates, winners, corners)
    return winners[:n_winners].tolist(), corners[:n_winners].tolist()


def ends_of(slopes: Numbers) -> tuple[int, int, int, int]:
    """The first line and the number of lines; the first with the least slope, the last with the greatest."""
    n = len(slopes)
    return 0, n, int(np.argmin(slopes)), n - 1 - int(np.argmax(slopes[::-1]))


def brute_force(pool: NBestPool, weights: Numbers, vector: Numbers) -> float:
    """The best BLEU in the open intervals between all crossings of all pairs of lines."""
    slopes, scores = pool.features @ vector, pool.features @ weights
    crossings = [
        (scores[i] - scores[j]) / (slopes[j] - slopes[i])
        for first, last in zip(pool.offsets[:-1], pool.offsets[1:], strict=True)
        for i in range(first, last)
        for j in range(first, last)
        if slopes[i] != slopes[j]
    ]
    bounds = sorted({round(float(x), 9) for x in crossings})
    edges = [-1e6, *bounds, 1e6]
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    values = []
    for x in middles:
        chosen = []
        for first, last in zip(pool.offsets[:-1], pool.offsets[1:], strict=True):
            reached = scores[first:last] + x * slopes[first:last]
            chosen.append(first + int(np.flatnonzero(reached >= reached.max() - 1e-9)[0]))
        values.append(float(bleu(pool.statistics[chosen].sum(axis=0))))
    return max(values)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(-2, 2), min_size=6, max_size=6).map(np.array))
def test_line_search_finds_what_brute_force_finds(seed: int, numbers: NDArray[np.int64]) -> None:
    pool = random_pool(seed)
    weights, vector = numbers[:3].astype(float), numbers[3:].astype(float)
    scores = weighted_scores(pool.features, weights)
    step, log_bleu = best_step(pool, Direction.of(pool, vector), scores)
    assert 100 * np.exp(log_bleu) == pytest.approx(brute_force(pool, weights, vector), rel=1e-9)
    assert np.isfinite(step)


@settings(max_examples=150, deadline=None)
@given(arrays(np.float64, st.integers(1, 8), elements=st.integers(-4, 4).map(float)), st.data())
def test_envelope_is_the_maximum_of_the_lines(slopes: Numbers, data: st.DataObject) -> None:
    heights = st.lists(st.integers(-4, 4).map(float), min_size=len(slopes), max_size=len(slopes))
    scores = np.array(data.draw(heights))
    winners, corners = winners_of(slopes, scores)
    for x in np.linspace(-9.03, 9.07, 64):
        winner = winners[np.searchsorted(corners, x) - 1]
        assert scores[winner] + slopes[winner] * x == pytest.approx((scores + slopes * x).max())


def test_lines_below_a_chord_are_left_out() -> None:
    # As points: a flat-topped hill, under its slopes one point each, and one on the left chord.
    slopes = np.array([1, 0.0, -4, 4, -3, -2])
    heights = np.array([5, 8.0, 0, 0, 0.5, 4])
    candidates = np.empty(6, np.int32)
    n_candidates = hull_candidates(slopes, heights, *ends_of(slopes), candidates)
    assert candidates[:n_candidates].tolist() == [2, 5, 1, 3]


@pytest.mark.parametrize("slope", [0.0, -1.5])
def test_of_parallel_lines_the_first_highest_wins(slope: float) -> None:
    assert winners_of(np.full(4, slope), np.array([1.0, 3, 3, 2])) == ([1], [-np.inf])


def test_two_hypotheses_by_hand() -> None:
    # Lines x and 1 - x cross at 0.5; the first hypothesis is right, so x must be above.
    right, wrong = [5, 5, 4, 4, 3, 3, 2, 2, 5], [3, 5, 1, 4, 1, 3, 1, 2, 5]
    statistics = np.array([right, wrong], np.int32)
    pool = make_pool(
        ("A_0", "B_0"), np.zeros(2, np.int64), np.array([[1.0, 0], [-1, 1]]), statistics
    )
    direction = Direction.of(pool, np.array([1.0, 0]))
    step, log_bleu = best_step(pool, direction, weighted_scores(pool.features, np.array([0.0, 1])))
    assert step > 0.5
    assert log_bleu == pytest.approx(0.0)


RIGHT, WRONG, POOR = (
    [5, 5, 4, 4, 3, 3, 2, 2, 5],
    [4, 5, 3, 4, 2, 3, 1, 2, 5],
    [3, 5, 1, 4, 1, 3, 1, 2, 5],
)


def step_between(
    lines: list[tuple[float, float, list[int]]], lowest: float = -np.inf, highest: float = np.inf
) -> tuple[float, float]:
    """The step from 0 for one sentence, whose hypotheses are lines of a slope and a height."""
    slopes, heights, statistics = zip(*lines, strict=True)
    pool = make_pool(
        ("A_0", "B_0"),
        np.zeros(len(lines), np.int64),
        np.column_stack([slopes, heights]).astype(float),
        np.array(statistics, np.int32),
    )
    direction = Direction.of(pool, np.array([1.0, 0]))
    scores = weighted_scores(pool.features, np.array([0.0, 1]))
    step, log_bleu = best_step(pool, direction, scores, lowest, highest)
    reached = bleu(pool.statistics_of(np.array([step, 1.0])))
    assert 100 * np.exp(log_bleu) == pytest.approx(float(reached))
    return step, log_bleu


# The right one wins between the corners -x = -1 and x - 4 = -1.
BETWEEN = [(-1.0, 0.0, WRONG), (0.0, -1.0, RIGHT), (1.0, -4.0, WRONG)]
MIRRORED = [(-slope, height, statistics) for slope, height, statistics in BETWEEN]


def test_the_step_leads_into_the_middle_of_the_best_interval() -> None:
    for lines, sign in ((BETWEEN, 1), (MIRRORED, -1)):
        assert step_between(lines)[0] == pytest.approx(2 * sign)
    assert step_between(BETWEEN, -3, 2)[0] == pytest.approx(1.5)
    assert step_between(BETWEEN, -3, 7)[0] == pytest.approx(2)
    assert step_between(MIRRORED, -1.5, 3)[0] == pytest.approx(-1.25)
    poor = np.log([4 / 5, 3 / 4, 2 / 3, 1 / 2]).mean()
    assert step_between(BETWEEN, -0.5, 0.5) == pytest.approx((0, poor))


def test_beyond_the_last_corner_a_tenth_is_gone() -> None:
    for sign in (1, -1):
        lines = [(0.0, 0.0, WRONG), (1.0 * sign, -4.0, RIGHT)]
        assert step_between(lines)[0] == pytest.approx(4.1 * sign)
        assert step_between(lines, -5, 5)[0] == pytest.approx(4.5 * sign)


def test_of_equally_good_intervals_the_nearest_is_taken() -> None:
    near, far = [(-1.0, 0.0, WRONG), (0.0, -1.0, RIGHT)], [(1.0, -4.0, WRONG), (2.0, -9.0, RIGHT)]
    assert step_between([*near, *far])[0] == pytest.approx(2)
    mirrored = [(-slope, height, statistics) for slope, height, statistics in [*near, *far]]
    assert step_between(mirrored)[0] == pytest.approx(-2)
    assert step_between([(0.0, 0.0, RIGHT), (1.0, -4.0, RIGHT)])[0] == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_at_a_corner_the_first_hypothesis_wins(sign: int) -> None:
    """So the step goes on from a corner at 0, and does not end at a corner that is the end of the range."""
    at_0 = [(-1.0 * sign, 0.0, WRONG), (1.0 * sign, 0.0, RIGHT)]
    assert step_between(at_0)[0] == pytest.approx(0.1 * sign)
    at_4 = [(0.0, 0.0, WRONG), (1.0 * sign, -4.0, RIGHT)]
    for beyond in (0.0, 1e-15):
        ends = sorted([-1.0 * sign, (4 + beyond) * sign])
        assert step_between(at_4, *ends)[0] == 0
    assert step_between(at_4, *sorted([-1.0 * sign, 4.5 * sign]))[0] == pytest.approx(4.25 * sign)


def test_without_room_there_is_no_step() -> None:
    features, statistics = np.array([[-1.0], [1]]), np.array([WRONG, RIGHT], np.int32)
    pool = make_pool(("A_0",), np.zeros(2, np.int64), features, statistics)
    assert best_step(pool, Direction.of(pool, np.ones(1)), np.zeros(2), 0.0, 0.0)[0] == 0


def test_where_some_order_has_no_match_log_bleu_is_minus_infinity() -> None:
    nothing = [5, 5, 4, 4, 3, 3, 0, 2, 5]
    assert step_between([(1.0, 0.0, nothing)]) == (0, -np.inf)
    step, log_bleu = step_between([(0.0, 0.0, nothing), (1.0, -4.0, POOR), (2.0, -9.0, nothing)])
    assert (step, np.isfinite(log_bleu)) == (pytest.approx(4.5), True)


def test_scores_move_with_the_weights() -> None:
    pool = random_pool(3)
    weights, vector = np.array([0.5, -1.0, 2.0]), np.array([1.0, 3.0, -2.0])
    scores = weighted_scores(pool.features, weights)
    Direction.of(pool, vector).advance(scores, 0.75)
    assert scores.tolist() == pytest.approx((pool.features @ (weights + 0.75 * vector)).tolist())
