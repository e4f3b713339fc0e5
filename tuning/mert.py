"""Minimum error rate training (Och 2003) over a pool, with an exact line search.

From each starting point the search goes through the axes and some random directions in random order and
moves at every gain; it ends when a whole sweep gains too little. All in float64.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tuning.bleu_stats import bleu
from tuning.envelope import best_step
from tuning.nbest_pool import NBestPool
from tuning.optimizer import OptimizerOptions, OptimizerResult, free_columns, normalised

MAX_SWEEPS = 50


def optimize_mert(
    pool: NBestPool,
    starts: NDArray[np.float64],
    options: OptimizerOptions,
    seed: int,
    jobs: int,
) -> OptimizerResult:
    """Maximise corpus BLEU of the pool's best hypotheses; see `Optimizer`."""
    free = free_columns(pool, options)
    points = np.concatenate([starts, _random_starts(pool, starts[0], options, free, seed)])

    def climb(number: int) -> tuple[float, NDArray[np.float64]]:
        rng = np.random.default_rng((seed, number))
        return _climb(pool, points[number], free, options, rng)

    with ThreadPoolExecutor(jobs) as threads:
        results = list(threads.map(climb, range(len(points))))
    best = max(range(len(results)), key=lambda number: results[number][0])
    weights = normalised(results[best][1])
    return OptimizerResult(
        weights=dict(zip(pool.names, map(float, weights), strict=True)),
        bleu=float(bleu(pool.statistics_of(weights))),
        restarts=tuple(value for value, _ in results),
        frozen=tuple(name for name, moves in zip(pool.names, free, strict=True) if not moves),
    )


def _random_starts(
    pool: NBestPool,
    start: NDArray[np.float64],
    options: OptimizerOptions,
    free: NDArray[np.bool_],
    seed: int,
) -> NDArray[np.float64]:
    """Points around the start, the spread of each weight set by the spread of its feature."""
    rng = np.random.default_rng((seed, 1 << 20))
    spread = pool.features.std(axis=0)
    scale = np.abs(start).mean() * spread.mean() / np.maximum(spread, 1e-9 + spread.mean() * 0.05)
    noise = rng.standard_normal((options.n_restarts, len(start))) * scale
    strength = rng.uniform(0.2, 1.5, (options.n_restarts, 1))
    return np.asarray(start + noise * strength * free)


def _climb(
    pool: NBestPool,
    start: NDArray[np.float64],
    free: NDArray[np.bool_],
    options: OptimizerOptions,
    rng: np.random.Generator,
) -> tuple[float, NDArray[np.float64]]:
    """BLEU (0 to 100) and weights of the top that is reached from a point."""
    weights = start.copy()
    value = float(bleu(pool.statistics_of(weights)))
    for _ in range(MAX_SWEEPS):
        before = value
        scores = pool.features @ weights
        for direction in _directions(pool, free, options, rng):
            slopes = pool.features @ direction
            step, log_bleu = best_step(slopes, scores, pool.offsets, pool.statistics)
            reached = 100 * float(np.exp(log_bleu))
            if step != 0.0 and reached > value + 1e-9:
                weights = weights + step * direction
                scores += step * slopes
                value = reached
        weights = normalised(weights) * np.abs(start).sum()
        if value - before < options.min_gain:
            break
    return float(bleu(pool.statistics_of(weights))), weights


def _directions(
    pool: NBestPool,
    free: NDArray[np.bool_],
    options: OptimizerOptions,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """The free axes and random directions with both signs, shuffled: *Shape:* (n, n_features)."""
    axes = np.eye(len(free))[free]
    spread = np.maximum(pool.features.std(axis=0), 1e-9)
    drawn = rng.standard_normal((options.n_directions, len(free))) * free / spread
    return np.asarray(rng.permutation(np.concatenate([axes, drawn])))
