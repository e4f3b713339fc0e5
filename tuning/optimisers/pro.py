"""Tuning as ranking, PRO (Hopkins & May 2011), over a pool.

Pairs of hypotheses of a sentence that differ much in quality (sentence BLEU, or that of another metric) are
drawn (section 3.2), and a logistic regression learns which of the two is better from the difference of their
features.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from moses_bridge.base.progress import track
from tuning.optimisers.contract import (
    Bounds,
    OptimizerConfig,
    OptimizerResult,
    free_columns,
    result_of,
)
from tuning.optimisers.envelope import Direction, best_step
from tuning.optimisers.nbest_pool import NBestPool, weighted_scores

N_SAMPLES = 16  # regressions on different sentences, for several lines to search along
# Sentences in each: few enough to differ, enough to learn from.
SHARE_OF_SENTENCES, LEAST_SENTENCES = 0.25, 100
MAX_SWEEPS = 10  # a guard: sweeps end by themselves after two or three
N_DRAWN = 5000  # pairs of a sentence, the number of them kept, and their least difference:
N_KEPT = 50  # Hopkins & May, section 3.2 (capital gamma, capital xi, alpha)
LEAST_DIFFERENCE = 0.05


def optimize_pro(
    pool: NBestPool, starts: NDArray[np.float64], config: OptimizerConfig, seed: int, jobs: int
) -> OptimizerResult:
    """Rank pairs of several samples of the sentences; see `Optimizer`.

    Section 3.3 interpolates the learned weights with the start at a fixed share. Here the weights move
    along the line to those learned from each sample, to the best BLEU on the pool, until no line helps.
    """
    free = free_columns(pool, config)
    bounds = Bounds.of(pool.names, config.bounds)
    start = bounds.clip(bounds.scaled(starts[0], 1.0))
    quality = pool.metric.quality(pool.statistics)

    def learn(number: int) -> NDArray[np.float64]:
        rng = np.random.default_rng((seed, number))
        return _regress(pool, _draw_pairs(pool, quality, rng), start, free)

    n_samples = N_SAMPLES if free.any() else 0
    with ThreadPoolExecutor(jobs) as threads:
        regressions = threads.map(learn, range(n_samples))
        learned = list(track(regressions, "PRO", n_samples, "regressions"))
    reached = [pool.goodness(weights) for weights in learned]
    weights, trace = _interpolate(pool, start, learned, bounds, config.pro.min_gain)
    return result_of(pool, weights, free, bounds, reached, trace)


def _interpolate(
    pool: NBestPool,
    start: NDArray[np.float64],
    learned: Sequence[NDArray[np.float64]],
    bounds: Bounds,
    min_gain: float,
) -> tuple[NDArray[np.float64], list[float]]:
    """Line searches from the start towards each of the learned weights; the metric after each sweep of them."""
    weights, trace = start, [pool.goodness(start)]
    for number in range(1, MAX_SWEEPS + 1):
        swept = weights
        for target in track(learned, f"PRO: sweep {number}", len(learned), "lines"):
            swept = _best_between(pool, swept, target, bounds)
        value = pool.goodness(swept)
        if value <= trace[-1]:
            break
        weights = swept
        trace.append(value)
        if trace[-1] - trace[-2] < min_gain:
            break
    return weights, trace


def _best_between(
    pool: NBestPool, weights: NDArray[np.float64], target: NDArray[np.float64], bounds: Bounds
) -> NDArray[np.float64]:
    """The weights with the best metric on the line through two, in their bounds."""
    direction = Direction.of(pool, target - weights)
    limits = bounds.steps(weights, direction.vector)
    step, _ = best_step(pool, direction, weighted_scores(pool.features, weights), *limits)
    return bounds.clip(weights + step * direction.vector)


def _draw_pairs(
    pool: NBestPool, quality: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Better and worse hypothesis of each kept pair of some sentences, *Shape:* (n_pairs, 2)."""
    n_sentences = len(pool.sentence_ids)
    n_chosen = max(LEAST_SENTENCES, int(SHARE_OF_SENTENCES * n_sentences))
    kept = []
    for sentence in rng.permutation(n_sentences)[:n_chosen]:
        pairs = rng.integers(pool.offsets[sentence], pool.offsets[sentence + 1], (N_DRAWN, 2))
        gaps = quality[pairs[:, 0]] - quality[pairs[:, 1]]
        (large,) = np.nonzero(gaps >= LEAST_DIFFERENCE)
        kept.append(pairs[large[np.argsort(-gaps[large], kind="stable")[:N_KEPT]]])
    return np.concatenate(kept)


def _regress(
    pool: NBestPool, pairs: NDArray[np.int64], start: NDArray[np.float64], free: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Weights of the free columns by logistic regression, normalised; the others as in the start."""
    differences = (pool.features[pairs[:, 0]] - pool.features[pairs[:, 1]])[:, free]
    weights = start.copy()
    if not len(differences):
        return weights
    spread = np.maximum(differences.std(axis=0), 1e-9)
    rows = np.concatenate([differences, -differences]) / spread
    labels = np.repeat([1, 0], len(differences))
    model = LogisticRegression(fit_intercept=False, max_iter=500).fit(rows, labels)
    found = model.coef_[0] / spread
    weights[free] = found * np.abs(start[free]).sum() / max(np.abs(found).sum(), 1e-300)
    return weights
