"""Exact line search: which hypotheses win along a line in weight space, and where the metric is best on it.

Along w + x d the score of a hypothesis is a line in x: intercept f.w, slope f.d. The winners of a
sentence are the upper envelope of its lines, and a metric of summed statistics changes only where some
envelope has a corner (Och 2003, section 5; Macherey et al. 2008, algorithm 1). The order of the slopes does
not depend on w: it is made once for a direction, and the envelope from any w is then one pass over the lines.
Most lines are left out before that: seen as points (slope, height) the envelope is the upper hull, and a
point below a chord between two others is not on it (Akl & Toussaint 1978).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tuning.pools.nbest_pool import NBestPool, weighted_scores

OUTER_STEP = 0.1  # beyond the last corner all points are equally good, and a near one changes the weights least
NARROW = 1e-10  # of its place: corners nearer than that are one; the difference is rounding
SLACK = 1e-12  # of the fall: a point on a chord is kept even if rounding puts it below


@dataclass(frozen=True)
class Direction:
    """A direction of the search, with the slopes of all lines in rising order.

    Attributes:
        vector: *Shape:* (n_features,).
        order: hypotheses, those of a sentence together, by rising slope, *Shape:* (n,).
        slopes: of the hypotheses in this order, *Shape:* (n,).
    """

    vector: NDArray[np.float64]
    order: NDArray[np.int32]
    slopes: NDArray[np.float64]

    @classmethod
    def of(cls, pool: NBestPool, vector: NDArray[np.float64]) -> Direction:
        """Sort the slopes of a pool's hypotheses; of equal slopes the earlier hypothesis comes first."""
        slopes = weighted_scores(pool.features, vector)
        order = _order(slopes, pool.offsets)
        return cls(vector, order, slopes[order])

    def advance(self, scores: NDArray[np.float64], step: float) -> None:
        """Change the scores of all hypotheses, *Shape:* (n,), by a step along the direction."""
        _advance(self.order, self.slopes, scores, step)


@njit(cache=True, nogil=True)
def _order(slopes, offsets):  # type: ignore[no-untyped-def]
    """Hypotheses of each sentence by rising slope."""
    order = np.empty(len(slopes), np.int32)
    for sentence in range(len(offsets) - 1):
        first, last = offsets[sentence], offsets[sentence + 1]
        order[first:last] = first + np.argsort(slopes[first:last], kind="mergesort")
    return order


@njit(cache=True, nogil=True)
def _advance(order, slopes, scores, step):  # type: ignore[no-untyped-def]
    for place in range(len(order)):
        scores[order[place]] += step * slopes[place]


@njit(cache=True, nogil=True)
def hull_candidates(slopes, heights, candidates):  # type: ignore[no-untyped-def]
    """Leave out points below the chords from the highest point to the first and the last.

    Args:
        slopes: rising, *Shape:* (n,).
        heights: *Shape:* (n,).
        candidates: filled with the places of the points left, rising, *Shape:* (n,).

    Returns:
        How many are left.
    """
    top = np.argmax(heights)
    first_run, last_run = slopes[0] - slopes[top], slopes[-1] - slopes[top]
    first_fall, last_fall = heights[0] - heights[top], heights[-1] - heights[top]
    first_gradient = first_fall / first_run if first_run != 0.0 else 0.0
    last_gradient = last_fall / last_run if last_run != 0.0 else 0.0
    slack = SLACK * min(first_fall, last_fall)
    n_candidates = 0
    for place in range(len(slopes)):
        run = slopes[place] - slopes[top]
        chord = min(first_gradient * run, last_gradient * run)
        candidates[n_candidates] = place
        n_candidates += heights[place] - heights[top] >= chord + slack
    return n_candidates


@njit(cache=True, nogil=True)
def envelope(slopes, heights, candidates, winners, corners):  # type: ignore[no-untyped-def]
    """Upper envelope of the lines of one sentence, from x = -infinity to +infinity.

    Args:
        slopes: rising, *Shape:* (n,).
        heights: of the lines at x = 0, *Shape:* (n,).
        candidates: places of the lines possibly on the envelope, rising, *Shape:* (n_candidates,).
        winners: filled with the places of the lines on the envelope, *Shape:* (n,).
        corners: corners[i] is filled with the x where winners[i] starts, *Shape:* (n,).

    Returns:
        How many lines are on the envelope.
    """
    winners[0] = candidates[0]
    corners[0] = -np.inf
    last = 0
    for place in candidates[1:]:
        height = heights[place]
        slope = slopes[place]
        fall = heights[winners[last]] - height
        rise = slope - slopes[winners[last]]
        if rise == 0.0 and fall >= 0.0:
            continue
        while last >= 0 and (rise == 0.0 or fall <= corners[last] * rise):
            last -= 1
            if last >= 0:
                fall = heights[winners[last]] - height
                rise = slope - slopes[winners[last]]
        corners[last + 1] = fall / rise if last >= 0 else -np.inf
        last += 1
        winners[last] = place
    return last + 1


def best_step(
    pool: NBestPool,
    direction: Direction,
    scores: NDArray[np.float64],
    lowest: float = -np.inf,
    highest: float = np.inf,
) -> tuple[float, float]:
    """The step along a direction with the best metric of the winners, that of the pool.

    Args:
        pool: the hypotheses.
        direction: where the search goes.
        scores: f.w of each hypothesis, *Shape:* (n,).
        lowest: least step, 0 or below it.
        highest: greatest step, 0 or above it.

    Returns:
        The middle of the best interval (of equal ones the nearest to 0; 0 if it is inside), and how good
        the metric is there (`Metric.along`): log BLEU (0 to 1) for BLEU. Intervals narrower than rounding are
        skipped; where the whole range is one, 0 and -infinity.
    """
    is_counted = pool.statistics.dtype.kind == "i"
    sums = np.zeros(pool.statistics.shape[1], np.int64 if is_counted else np.float64)
    places, changes = _corners(
        direction.order, direction.slopes, scores, pool.offsets, pool.statistics, sums
    )
    order = np.argsort(places)
    values = pool.metric.along(sums, changes, order)
    step, value = _best_interval(places, order, values, lowest, highest)
    return float(step), float(value)


@njit(cache=True, nogil=True)
def _best_interval(places, by_place, values, lowest, highest):  # type: ignore[no-untyped-def]
    """Step and value of the best interval; see `best_step` and `_corners`."""
    n_corners = len(places)
    best_x, best_value = 0.0, -np.inf
    start = -np.inf
    i = 0
    while True:
        end = places[by_place[i]] if i < n_corners else np.inf
        left, right = max(start, lowest), min(end, highest)
        # A range ending at a corner excludes the interval beyond it: there the first hypothesis wins.
        if right == np.inf or right - left > NARROW * abs(right):
            middle = _middle(left, right)
            value = values[i]
            if value > best_value or (value == best_value and abs(middle) < abs(best_x)):
                best_value = value
                best_x = middle
        if i == n_corners:
            return best_x, best_value
        while i < n_corners and places[by_place[i]] <= end + NARROW * abs(end):
            start = places[by_place[i]]
            i += 1


@njit(cache=True, nogil=True)
def _middle(start, end):  # type: ignore[no-untyped-def]
    """0 if it is inside an interval, otherwise the middle, or a point near the end it has."""
    if start < 0.0 < end:
        return 0.0
    if start == -np.inf:
        return end - OUTER_STEP
    if end == np.inf:
        return start + OUTER_STEP
    return 0.5 * (start + end)


@njit(cache=True, nogil=True)
def _corners(order, slopes, scores, offsets, statistics, sums):  # type: ignore[no-untyped-def]
    """Corners of all envelopes; the summed statistics at -infinity are added to `sums`.

    Returns:
        Where each is, and how it changes the summed statistics.
    """
    n = len(order)
    heights = scores[order]
    candidates = np.empty(n, np.int32)
    winners = np.empty(n, np.int32)
    starts = np.empty(n, np.float64)
    places = np.empty(n, np.float64)
    changes = np.empty((n, len(sums)), statistics.dtype)
    n_corners = 0
    for sentence in range(len(offsets) - 1):
        first, last = offsets[sentence], offsets[sentence + 1]
        lines = slopes[first:last], heights[first:last]
        n_candidates = hull_candidates(lines[0], lines[1], candidates)
        n_winners = envelope(lines[0], lines[1], candidates[:n_candidates], winners, starts)
        before = order[first + winners[0]]
        for k in range(len(sums)):
            sums[k] += statistics[before, k]
        for i in range(1, n_winners):
            after = order[first + winners[i]]
            places[n_corners] = starts[i]
            for k in range(len(sums)):
                changes[n_corners, k] = statistics[after, k] - statistics[before, k]
            before = after
            n_corners += 1
    return places[:n_corners], changes[:n_corners]
