"""Exact line search: which hypotheses win along a line in weight space, and where BLEU is best on it.

Along w + x d the score of a hypothesis is a line in x: intercept f.w, slope f.d. The winners of a
sentence are the upper envelope of its lines, and corpus BLEU changes only where some envelope has a
corner (Och 2003, section 5; Macherey et al. 2008, algorithm 1).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tuning.bleu_stats import N_STATISTICS

OUTER_STEP = 0.1


@njit(cache=True, nogil=True)
def envelope(slopes, intercepts, winners, corners):  # type: ignore[no-untyped-def]
    """Upper envelope of the lines of one sentence, from x = -infinity to +infinity.

    Args:
        slopes: *Shape:* (n,).
        intercepts: *Shape:* (n,).
        winners: filled with the hypotheses on the envelope, *Shape:* (n,).
        corners: corners[i] is filled with the x where winners[i] starts, *Shape:* (n,).

    Returns:
        How many hypotheses are on the envelope.
    """
    n = len(slopes)
    current = 0
    for i in range(1, n):
        lower = slopes[i] < slopes[current]
        level = slopes[i] == slopes[current] and intercepts[i] > intercepts[current]
        if lower or level:
            current = i
    winners[0] = current
    corners[0] = -np.inf
    n_winners = 1
    while True:
        nearest = np.inf
        following = -1
        for i in range(n):
            rise = slopes[i] - slopes[current]
            if rise > 0.0:
                x = (intercepts[current] - intercepts[i]) / rise
                if x < nearest or (x == nearest and slopes[i] > slopes[following]):
                    nearest = x
                    following = i
        if following < 0:
            return n_winners
        winners[n_winners] = following
        corners[n_winners] = nearest
        n_winners += 1
        current = following


@njit(cache=True, nogil=True)
def _log_bleu(sums):  # type: ignore[no-untyped-def]
    """Log of corpus BLEU (0 to 1); -infinity where some order has no match."""
    total = 0.0
    for order in range(4):
        if sums[2 * order] <= 0:
            return -np.inf
        total += np.log(sums[2 * order] / sums[2 * order + 1])
    return total / 4 + min(0.0, 1.0 - sums[8] / sums[1])


@njit(cache=True, nogil=True)
def best_step(slopes, intercepts, offsets, statistics):  # type: ignore[no-untyped-def]
    """The step along a line with the best corpus BLEU of the winners.

    Args:
        slopes: f.d of each hypothesis, *Shape:* (n,).
        intercepts: f.w of each hypothesis, *Shape:* (n,).
        offsets: first hypothesis of each sentence, *Shape:* (n_sentences + 1,).
        statistics: BLEU statistics, *Shape:* (n, 9).

    Returns:
        The middle of the best interval (of equal ones the nearest to 0), and log BLEU (0 to 1) there.
    """
    n = len(slopes)
    winners = np.empty(n, np.int64)
    corners = np.empty(n, np.float64)
    before = np.empty(n, np.int64)
    after = np.empty(n, np.int64)
    places = np.empty(n, np.float64)
    n_corners = 0
    sums = np.zeros(N_STATISTICS, np.int64)
    for sentence in range(len(offsets) - 1):
        first, last = offsets[sentence], offsets[sentence + 1]
        n_winners = envelope(slopes[first:last], intercepts[first:last], winners, corners)
        sums += statistics[first + winners[0]]
        for i in range(1, n_winners):
            places[n_corners] = corners[i]
            before[n_corners] = first + winners[i - 1]
            after[n_corners] = first + winners[i]
            n_corners += 1
    order = np.argsort(places[:n_corners])
    best_value = _log_bleu(sums)
    if n_corners == 0:
        return 0.0, best_value
    best_x = places[order[0]] - OUTER_STEP
    if best_x > 0.0:
        best_x = 0.0
    i = 0
    while i < n_corners:
        x = places[order[i]]
        while i < n_corners and places[order[i]] == x:
            for k in range(N_STATISTICS):
                sums[k] += statistics[after[order[i]], k] - statistics[before[order[i]], k]
            i += 1
        value = _log_bleu(sums)
        if i < n_corners:
            following = places[order[i]]
            middle = 0.5 * (x + following)
            inside = x < 0.0 < following
        else:
            middle = max(0.0, x + OUTER_STEP)
            inside = middle == 0.0
        if inside:
            middle = 0.0
        if value > best_value or (value == best_value and abs(middle) < abs(best_x)):
            best_value = value
            best_x = middle
    return best_x, best_value
