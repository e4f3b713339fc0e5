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
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from tuning.optimisers.nbest_pool import NBestPool, weighted_scores

OUTER_STEP = 0.1  # beyond the last corner all points are equally good, and a near one changes the weights least
NARROW = 1e-10  # of its place: corners nearer than that are one; the difference is rounding
SLACK = 1e-12  # of the fall: a point on a chord is kept even if rounding puts it below


@dataclass(frozen=True)
class Direction:
    """A direction of the search, with the slopes of all lines.

    Attributes:
        vector: *Shape:* (n_features,).
        slopes: of the hypotheses, *Shape:* (n,).
        ends: for each sentence the hypothesis with the least slope (of equal ones the first) and that with the
            greatest slope (the last), *Shape:* (n_sentences, 2).
    """

    vector: NDArray[np.float64]
    slopes: NDArray[np.float64]
    ends: NDArray[np.int32]

    @classmethod
    def of(cls, pool: NBestPool, vector: NDArray[np.float64]) -> Direction:
        """The slopes of a pool's hypotheses along a direction."""
        slopes = weighted_scores(pool.features, vector)
        return cls(vector, slopes, _ends(slopes, pool.offsets))

    def advance(self, scores: NDArray[np.float64], step: float) -> None:
        """Change the scores of all hypotheses, *Shape:* (n,), by a step along the direction."""
        scores += step * self.slopes


@njit(nogil=True)
def _ends(slopes, offsets):  # type: ignore[no-untyped-def]
    ends = np.empty((len(offsets) - 1, 2), np.int32)
    for sentence in range(len(ends)):
        least = greatest = offsets[sentence]
        for line in range(least + 1, offsets[sentence + 1]):
            if slopes[line] < slopes[least]:
                least = line
            if slopes[line] >= slopes[greatest]:
                greatest = line
        ends[sentence, 0], ends[sentence, 1] = least, greatest
    return ends


@njit(nogil=True)
def hull_candidates(  # type: ignore[no-untyped-def]
    slopes, heights, first, end, least, greatest, candidates
):
    """Fill `candidates` with the points not below the chords from the highest point to the ends; count them.

    The points of the sentence are `first` to `end` - 1 of all; `least` is its first point with the least slope,
    `greatest` its last one with the greatest. Candidates are in order of slope, then of number.
    """
    highest = _highest(heights, first, end)
    top = first
    while heights[top] != highest:
        top += 1
    middle = slopes[top]
    first_run, last_run = slopes[least] - middle, slopes[greatest] - middle
    first_fall, last_fall = heights[least] - highest, heights[greatest] - highest
    first_gradient = first_fall / first_run if first_run != 0.0 else 0.0
    last_gradient = last_fall / last_run if last_run != 0.0 else 0.0
    slack = SLACK * min(first_fall, last_fall)
    n_candidates = 0
    for point in range(first, end):
        run = slopes[point] - middle
        chord = min(first_gradient * run, last_gradient * run)
        candidates[n_candidates] = point
        n_candidates += heights[point] - highest >= chord + slack
    _sort(candidates, n_candidates, slopes)
    return n_candidates


@njit(nogil=True, fastmath={"nnan", "nsz"})
def _highest(heights, first, end):  # type: ignore[no-untyped-def]
    """The greatest of some numbers; the flags let it be sought in several at a time."""
    highest = heights[first]
    for point in range(first + 1, end):
        highest = max(highest, heights[point])
    return highest


@inner
def _sort(points, n_points, slopes):  # type: ignore[no-untyped-def]
    """Sort points by slope, those of equal slope in their order; by insertion, as most moves are short."""
    for place in range(1, n_points):
        point = points[place]
        slope = slopes[point]
        while place > 0 and slopes[points[place - 1]] > slope:
            points[place] = points[place - 1]
            place -= 1
        points[place] = point


@njit(nogil=True)
def envelope(slopes, heights, candidates, n_candidates, winners, corners):  # type: ignore[no-untyped-def]
    """Upper envelope of the lines of one sentence, from x = -infinity to +infinity; the number of its lines.

    `heights` are at x = 0; the first n_candidates of `candidates` are in order of slope. `winners` is filled
    with the lines on the envelope, corners[i] with the x where winners[i] starts.
    """
    winners[0] = candidates[0]
    corners[0] = -np.inf
    last = 0
    for candidate in range(1, n_candidates):
        line = candidates[candidate]
        height = heights[line]
        slope = slopes[line]
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
        winners[last] = line
    return last + 1


def best_step(
    pool: NBestPool,
    direction: Direction,
    scores: NDArray[np.float64],
    lowest: float = -np.inf,
    highest: float = np.inf,
) -> tuple[float, float]:
    """The step along a direction with the best metric of the winners, that of the pool.

    Scores are f.w of each hypothesis, *Shape:* (n,); steps are between `lowest`, 0 or below it, and
    `highest`, 0 or above it.

    Returns:
        The middle of the best interval (of equal ones the nearest to 0; 0 if it is inside), and how good the
        metric is there (`Metric.along`): log BLEU (0 to 1) for BLEU. Intervals narrower than rounding are
        skipped; where the whole range is one, 0 and -infinity.
    """
    firsts, places, losers, winners = _corners(
        direction.slopes, direction.ends, scores, pool.offsets
    )
    order = np.argsort(places, kind="stable")
    values = pool.metric.along(pool.statistics, firsts, losers[order], winners[order])
    step, value = _best_interval(places[order], values, lowest, highest)
    return float(step), float(value)


@njit(nogil=True)
def _best_interval(places, values, lowest, highest):  # type: ignore[no-untyped-def]
    """Step and value of the best interval; see `best_step` and `_corners`."""
    n_corners = len(places)
    best_x, best_value = 0.0, -np.inf
    start = -np.inf
    i = 0
    while True:
        end = places[i] if i < n_corners else np.inf
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
        while i < n_corners and places[i] <= end + NARROW * abs(end):
            start = places[i]
            i += 1


@njit(nogil=True)
def _middle(start, end):  # type: ignore[no-untyped-def]
    """0 if it is inside an interval, otherwise the middle, or a point near the end it has."""
    if start < 0.0 < end:
        return 0.0
    if start == -np.inf:
        return end - OUTER_STEP
    if end == np.inf:
        return start + OUTER_STEP
    return 0.5 * (start + end)


@njit(nogil=True)
def _corners(slopes, ends, scores, offsets):  # type: ignore[no-untyped-def]
    """Corners of all envelopes: first winners at -infinity, places, losers (before a corner) and winners."""
    n_sentences = len(offsets) - 1
    candidates = np.empty(len(slopes), np.int32)
    on_envelope = np.empty(len(slopes), np.int32)
    starts = np.empty(len(slopes), np.float64)
    firsts = np.empty(n_sentences, np.int32)
    places = np.empty(len(slopes), np.float64)
    losers = np.empty(len(slopes), np.int32)
    winners = np.empty(len(slopes), np.int32)
    n_corners = 0
    for sentence in range(n_sentences):
        least, greatest = ends[sentence, 0], ends[sentence, 1]
        bounds = offsets[sentence], offsets[sentence + 1]
        n_candidates = hull_candidates(slopes, scores, *bounds, least, greatest, candidates)
        n_lines = envelope(slopes, scores, candidates, n_candidates, on_envelope, starts)
        firsts[sentence] = on_envelope[0]
        for i in range(1, n_lines):
            places[n_corners] = starts[i]
            losers[n_corners] = on_envelope[i - 1]
            winners[n_corners] = on_envelope[i]
            n_corners += 1
    return firsts, places[:n_corners], losers[:n_corners], winners[:n_corners]
