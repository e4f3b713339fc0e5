"""Expected BLEU (Smith & Eisner 2006; Rosti et al. 2010) over a pool, raised by its gradient.

Each hypothesis counts by its probability, the softmax of the sharpened score over those of its sentence, so
that the sums of BLEU, and BLEU itself, are smooth in the weights. An optimum over many
hypotheses at once depends less on single ones by chance than the best corner of MERT does.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.progress import Progress
from tuning.metrics.bleu import MAX_ORDER, N_STATISTICS
from tuning.optimisers.contract import (
    Bounds,
    OptimizerConfig,
    OptimizerResult,
    free_columns,
    result_of,
)
from tuning.optimisers.nbest_pool import NBestPool, spread_within

# Scores are sharpened in steps (annealing, Smith & Eisner 2006, section 4): the first leaves few peaks to
# choose among, the last is near to what the decoder does. In units of the spread within a sentence.
SHARPNESS = (1.0, 3.0, 10.0, 30.0)
N_RANDOM_STARTS = 2  # besides the current weights; mostly all lead to one point
MAX_STEPS = 100  # of L-BFGS at each sharpness; it ends by itself after some 30
BREVITY_SHARPNESS = 200.0  # the penalty's corner is rounded over about 1/200 of the length

Value = tuple[float, NDArray[np.float64]]


def optimize_xbleu(
    pool: NBestPool, starts: NDArray[np.float64], config: OptimizerConfig, seed: int, jobs: int
) -> OptimizerResult:
    """Climb from the first start and random ones; the highest expected BLEU is taken; see `Optimizer`."""
    free = free_columns(pool, config)
    bounds = Bounds.of(pool.names, config.bounds)
    spread = spread_within(pool)
    points = np.concatenate([starts[:1], _random_starts(starts[0], spread, free, seed)])

    n_climbs = len(points) * len(SHARPNESS) if free.any() else 0
    with ThreadPoolExecutor(jobs) as threads, Progress("xBLEU", n_climbs, "climbs") as progress:

        def climb(start: NDArray[np.float64]) -> tuple[float, NDArray[np.float64], list[float]]:
            return _climb(pool, bounds.clip(start), spread, free, bounds, progress)

        found = list(threads.map(climb, points))
    _, weights, trace = max(found, key=lambda each: each[0])
    reached = [pool.goodness(each) for _, each, _ in found]
    return result_of(pool, weights, free, bounds, reached, trace)


def _random_starts(
    centre: NDArray[np.float64], spread: NDArray[np.float64], free: NDArray[np.bool_], seed: int
) -> NDArray[np.float64]:
    """Points around the first start, as far from it as it is from 0, *Shape:* (n, n_features)."""
    rng = np.random.default_rng(seed)
    size = np.abs(centre * spread).mean()
    return np.asarray(
        centre + free * size / spread * rng.standard_normal((N_RANDOM_STARTS, len(centre)))
    )


def _climb(
    pool: NBestPool,
    start: NDArray[np.float64],
    spread: NDArray[np.float64],
    free: NDArray[np.bool_],
    bounds: Bounds,
    progress: Progress,
) -> tuple[float, NDArray[np.float64], list[float]]:
    """The expected value at the last sharpness, the weights, and the winners' metric after each."""
    weights = start.copy()
    trace = [pool.goodness(weights)]
    if not free.any():
        return trace[0], weights, trace
    box = [*zip(bounds.least[free] * spread[free], bounds.most[free] * spread[free], strict=True)]
    value = 0.0
    for sharpness in SHARPNESS:
        objective = _objective(pool, weights, spread, free, sharpness)
        found = minimize(
            objective,
            (weights * spread)[free],
            jac=True,
            method="L-BFGS-B",
            bounds=box if bounds.bind else None,
            options={"maxiter": MAX_STEPS},
        )
        weights[free], value = found.x / spread[free], -float(found.fun)
        trace.append(pool.goodness(weights))
        progress.update()
    return value, weights, trace


def _objective(
    pool: NBestPool,
    weights: NDArray[np.float64],
    spread: NDArray[np.float64],
    free: NDArray[np.bool_],
    sharpness: float,
) -> Callable[[NDArray[np.float64]], Value]:
    """Minus expected log BLEU, or mean gain, of the free weights (times their spread), and its gradient."""
    scaled = weights * spread
    gains = pool.metric.gains(pool.statistics)

    def value(point: NDArray[np.float64]) -> Value:
        row = scaled.copy()
        row[free] = point
        length = max(float(np.sqrt((row**2).sum())), 1e-12)  # a larger scale would always be better
        used = sharpness * row / length
        if gains is None:
            expected, gradient = expected_log_bleu(
                pool.features, pool.statistics, pool.offsets, used / spread
            )
        else:
            expected, gradient = expected_gain(pool.features, gains, pool.offsets, used / spread)
        gradient = gradient / spread * sharpness / length
        gradient -= (gradient @ row) / length**2 * row
        return -expected, -gradient[free]

    return value


def expected_log_bleu(
    features: NDArray[np.float64],
    statistics: NDArray[np.int32],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> Value:
    """Log of BLEU (0 to 1) of the expected statistics, and its gradient by the weights.

    Features and statistics are those of the hypotheses, *Shapes:* (n, n_features) and (n, 9); offsets are the
    first hypothesis of each sentence, *Shape:* (n_sentences + 1,).
    """
    probabilities = np.empty(len(features))
    sums = np.zeros(N_STATISTICS)
    _expect(features, statistics, offsets, weights, probabilities, sums)
    log_bleu, by_sum = smooth_log_bleu(sums)
    gradient = np.zeros(len(weights))
    _gradient(features, statistics, offsets, probabilities, by_sum, gradient)
    return log_bleu, gradient


def expected_gain(
    features: NDArray[np.float64],
    gains: NDArray[np.float64],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> Value:
    """The mean over the sentences of the expected gain, and its gradient by the weights.

    Gains are those of the hypotheses, *Shape:* (n,); the rest is as in `expected_log_bleu`.
    """
    probabilities, sums = np.empty(len(features)), np.zeros(1)
    _expect(features, gains[:, None], offsets, weights, probabilities, sums)
    n_sentences = len(offsets) - 1
    gradient = np.zeros(len(weights))
    by_sum = np.array([1 / n_sentences])
    _gradient(features, gains[:, None], offsets, probabilities, by_sum, gradient)
    return float(sums[0]) / n_sentences, gradient


def smooth_log_bleu(sums: NDArray[np.float64]) -> Value:
    """Log of BLEU (0 to 1) of summed statistics, *Shape:* (9,), with its gradient.

    The brevity penalty is rounded.
    """
    matches, totals = np.maximum(sums[0:-1:2], 1e-9), np.maximum(sums[1:-1:2], 1e-9)
    ratio = sums[-1] / totals[0]
    excess = BREVITY_SHARPNESS * (ratio - 1)
    penalty = np.logaddexp(0.0, excess) / BREVITY_SHARPNESS
    slope = np.exp(-np.logaddexp(0.0, -excess))
    gradient = np.empty(N_STATISTICS)
    gradient[0:-1:2], gradient[1:-1:2] = 1 / (MAX_ORDER * matches), -1 / (MAX_ORDER * totals)
    gradient[1] += slope * ratio / totals[0]
    gradient[-1] = -slope / totals[0]
    return float(np.log(matches / totals).mean() - penalty), gradient


@njit(nogil=True)
def _expect(features, statistics, offsets, weights, probabilities, sums):  # type: ignore[no-untyped-def]
    """Fill the probability of each hypothesis in its sentence, and add up the expected statistics."""
    for sentence in range(len(offsets) - 1):
        first, last = offsets[sentence], offsets[sentence + 1]
        highest = -np.inf
        for row in range(first, last):
            score = 0.0
            for column in range(len(weights)):
                score += features[row, column] * weights[column]
            probabilities[row] = score
            highest = max(highest, score)
        total = 0.0
        for row in range(first, last):
            # Less the highest score: otherwise the exponential overflows.
            probabilities[row] = np.exp(probabilities[row] - highest)
            total += probabilities[row]
        for row in range(first, last):
            probabilities[row] /= total
            for k in range(len(sums)):
                sums[k] += probabilities[row] * statistics[row, k]


@njit(nogil=True)
def _gradient(features, statistics, offsets, probabilities, by_sum, gradient):  # type: ignore[no-untyped-def]
    """Add the gradient by the weights: probability times gain above the sentence's mean times features."""
    for sentence in range(len(offsets) - 1):
        first, last = offsets[sentence], offsets[sentence + 1]
        mean = 0.0
        for row in range(first, last):
            for k in range(len(by_sum)):
                mean += probabilities[row] * by_sum[k] * statistics[row, k]
        for row in range(first, last):
            gain = -mean
            for k in range(len(by_sum)):
                gain += by_sum[k] * statistics[row, k]
            share = probabilities[row] * gain
            for column in range(len(gradient)):
                gradient[column] += share * features[row, column]
