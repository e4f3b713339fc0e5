"""Minimum error rate training (Och 2003) over a pool, with an exact line search.

From each starting point the search goes through the axes and some random directions in random order and
moves at every gain; it ends when a whole sweep gains too little. Restarts come in rounds, each around
the best point found so far and with random directions of its own (iterated local search). The BLEU of
a small pool is rugged and cheap to look at: there many more restarts follow, farther out. All in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.progress import Progress
from tuning.optimisers.contract import (
    Bounds,
    MertConfig,
    OptimizerConfig,
    OptimizerResult,
    free_columns,
    result_of,
)
from tuning.optimisers.envelope import Direction, best_step
from tuning.optimisers.nbest_pool import NBestPool, weighted_scores

MAX_SWEEPS = 50  # a guard: climbs end by themselves after three to ten
N_ROUNDS = 7  # with more rounds, each has too few climbs to choose among
NEAR = (0.02, 0.3)  # distances of restarts from the best point, as shares of the mean weight
FAR = (0.1, 1.5)  # of the further ones on a small pool; the best of seven ranges on pools of 1000
MOST_FURTHER = 400  # restarts; on pools of 1000 four times as many gained less than 1 BLEU
DIRECTIONS_STREAM = 1 << 20  # above the numbers of climbs: each use has its own random numbers
STARTS_STREAM = 1 << 21


@dataclass(frozen=True)
class _Peak:
    """Where a climb ended: `NBestPool.goodness`, weights, and the goodness after each sweep."""

    goodness: float
    weights: NDArray[np.float64]
    trace: tuple[float, ...]


def optimize_mert(
    pool: NBestPool, starts: NDArray[np.float64], config: OptimizerConfig, seed: int, jobs: int
) -> OptimizerResult:
    """Maximise the metric of the pool's best hypotheses; see `Optimizer`."""
    free = free_columns(pool, config)
    pool = replace(pool, statistics=_small(pool.statistics))
    spread = _spread(pool)
    bounds = Bounds.of(pool.names, config.bounds)
    rounds = _rounds(pool, config.mert)
    n_climbs = len(starts) + sum(n_starts for n_starts, _ in rounds)
    with ThreadPoolExecutor(jobs) as threads, Progress("MERT", n_climbs, "climbs") as progress:
        axes = list(threads.map(partial(Direction.of, pool), np.eye(len(free))[free]))

        def climb_all(points: NDArray[np.float64], first: int, number: int) -> list[_Peak]:
            """Climb from the points of a round; the numbers of the climbs seed their random choices."""
            vectors = _random_directions(spread, free, config.mert, (seed, number))
            drawn = list(threads.map(partial(Direction.of, pool), vectors))
            to_beat = max((peak.goodness for peak in peaks), default=-np.inf)
            search = _Search(pool, [*axes, *drawn], config.mert, bounds, seed, to_beat)
            inside = bounds.clip(points)
            climbed = []
            for peak in threads.map(search.climb, inside, range(first, first + len(points))):
                climbed.append(peak)
                progress.update()
            return climbed

        peaks: list[_Peak] = []
        peaks += climb_all(starts, 0, 0)
        for number, (n_starts, distances) in enumerate(rounds, start=1):
            around = max(peaks, key=lambda peak: peak.goodness).weights
            points = _random_starts(spread, around, n_starts, free, distances, (seed, number))
            peaks += climb_all(points, len(peaks), number)
    best = max(peaks, key=lambda peak: peak.goodness)
    restarts = [peak.goodness for peak in peaks]
    return result_of(pool, best.weights, free, bounds, restarts, best.trace)


def _small(statistics: Any) -> Any:
    """Whole numbers in the smallest type for them and their differences: each corner looks up two rows."""
    if statistics.dtype.kind != "i":
        return statistics
    reach = int(statistics.max(initial=0)) - int(statistics.min(initial=0))
    return statistics.astype(np.min_scalar_type(-reach - 1))


def _random_directions(
    spread: NDArray[np.float64],
    free: NDArray[np.bool_],
    config: MertConfig,
    stream: tuple[int, int],
) -> NDArray[np.float64]:
    """Directions that move the scores by each free feature about equally: *Shape:* (n, n_features)."""
    rng = np.random.default_rng((*stream, DIRECTIONS_STREAM))
    n_directions = config.n_directions if free.any() else 0
    return np.asarray(rng.standard_normal((n_directions, len(free))) * free / spread)


def _spread(pool: NBestPool) -> NDArray[np.float64]:
    """Standard deviation of each feature, floored, *Shape:* (n_features,)."""
    spread = pool.features.std(axis=0)
    return np.asarray(np.maximum(spread, 1e-9 + 0.05 * spread.mean()))


def _rounds(pool: NBestPool, config: MertConfig) -> list[tuple[int, tuple[float, float]]]:
    """How many restarts each round has, and between which distances from the best point."""
    n_further = max(0, config.small_pool_work // len(pool) - config.n_restarts)
    if not config.n_restarts:
        n_further = 0  # "no restarts" means none
    near = [(size, NEAR) for size in _round_sizes(config.n_restarts)]
    return near + [(size, FAR) for size in _round_sizes(min(n_further, MOST_FURTHER))]


def _round_sizes(n_restarts: int) -> list[int]:
    sizes = [(n_restarts + i) // N_ROUNDS for i in range(N_ROUNDS)]
    return [size for size in sizes if size]


def _random_starts(
    spread: NDArray[np.float64],
    centre: NDArray[np.float64],
    n_starts: int,
    free: NDArray[np.bool_],
    distances: tuple[float, float],
    stream: tuple[int, int],
) -> NDArray[np.float64]:
    """Points around another, some near and some far; a weight's spread follows its feature's."""
    rng = np.random.default_rng((*stream, STARTS_STREAM))
    scale = np.abs(centre).mean() * spread.mean() / spread
    noise = rng.standard_normal((n_starts, len(centre))) * scale
    nearest, farthest = np.log(distances)
    distance = np.exp(rng.uniform(nearest, farthest, (n_starts, 1)))
    return np.asarray(centre + noise * distance * free)


@dataclass(frozen=True)
class _Search:
    """Data shared by the climbs of a round."""

    pool: NBestPool
    directions: Sequence[Direction]
    config: MertConfig
    bounds: Bounds
    seed: int
    to_beat: float

    def climb(self, start: NDArray[np.float64], number: int) -> _Peak:
        """Sweep over the directions from a point until a sweep gains too little.

        The gains of sweeps shrink fast: a climb is given up if it would stay below earlier ones
        even with half the gain of the last sweep in all further ones together.
        """
        rng = np.random.default_rng((self.seed, number))
        weights = start.copy()
        trace = [self.pool.goodness(weights)]
        for _ in range(MAX_SWEEPS):
            swept = self._sweep(weights, trace[-1], rng)
            swept = self.bounds.scaled(swept, float(np.abs(start).sum()))
            value = self.pool.goodness(swept)
            if value <= trace[-1]:
                break
            weights = swept
            trace.append(value)
            gain = trace[-1] - trace[-2]
            if gain < self.config.min_gain or value + 0.5 * gain < self.to_beat:
                break
        return _Peak(trace[-1], weights, tuple(trace))

    def _sweep(
        self, weights: NDArray[np.float64], value: float, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Search along all directions, in random order, and move at every gain."""
        scores = weighted_scores(self.pool.features, weights)
        level = self.pool.metric.level(self.pool.metric.sign * value)
        for number in rng.permutation(len(self.directions)):
            direction = self.directions[number]
            limits = self.bounds.steps(weights, direction.vector)
            step, reached = best_step(self.pool, direction, scores, *limits)
            if step != 0.0 and reached > level + 1e-12:
                weights = self.bounds.clip(weights + step * direction.vector)
                direction.advance(scores, step)
                level = reached
        return weights
