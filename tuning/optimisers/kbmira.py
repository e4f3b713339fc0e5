"""k-best batch MIRA (Cherry & Foster 2012, section 3 and algorithm 1) over a pool.

Each sentence pulls the weights from its fear (model score high, BLEU low) to its hope (both high) by the
smallest step making the scores differ as the BLEUs do. Another metric than BLEU gives each hypothesis a
gain of its own (`Metric.gains`), in the place of its BLEU amid past sentences. The settings are those of
Moses's kbmira. The learned weights depend on the order of the sentences, so weights are averaged over several
orders, as Cettolo et al. (2011) average over runs of an optimiser. Choosing among them by their BLEU on the
pool would be choosing by chance: averages vary less between tunings and translate other texts better
(docs/decisions/optimisers.md).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.progress import track
from tuning.metrics.bleu import MAX_ORDER
from tuning.optimisers.contract import (
    Bounds,
    OptimizerConfig,
    OptimizerResult,
    free_columns,
    result_of,
)
from tuning.optimisers.nbest_pool import NBestPool

N_EPOCHS = 60  # this and the next two are the defaults of kbmira.cpp
LARGEST_STEP = 0.01
DECAY = 0.999
N_SHUFFLES = 8  # orders of the sentences, whose weights are averaged


def optimize_kbmira(
    pool: NBestPool, starts: NDArray[np.float64], config: OptimizerConfig, seed: int, jobs: int
) -> OptimizerResult:
    """Batch MIRA from the first start, averaged over all steps and several orders; see `Optimizer`."""
    free = free_columns(pool, config)
    bounds = Bounds.of(pool.names, config.bounds)
    start = bounds.clip(starts[0])
    gains = pool.metric.gains(pool.statistics)
    statistics = pool.statistics.astype(np.float64) if gains is None else gains[:, None]

    def learn(number: int) -> NDArray[np.float64]:
        rng = np.random.default_rng((seed, number))
        n_sentences = len(pool.sentence_ids)
        orders = np.array([rng.permutation(n_sentences) for _ in range(N_EPOCHS)])
        averages = _averages(
            pool.features,
            statistics,
            pool.offsets,
            orders,
            start,
            np.where(free, bounds.least, start),
            np.where(free, bounds.most, start),
        )
        return np.asarray(averages[-1])

    with ThreadPoolExecutor(jobs) as threads:
        orders = threads.map(learn, range(N_SHUFFLES))
        learned = list(track(orders, "batch MIRA", N_SHUFFLES, "orders"))
    weights = np.mean(learned, axis=0)
    points = (start, weights, *learned)
    before, after, *reached = (pool.goodness(each) for each in points)
    return result_of(pool, weights, free, bounds, reached, (before, after))


@njit(nogil=True)
def _averages(features, statistics, offsets, orders, start, least, most):  # type: ignore[no-untyped-def]
    """The start, then the weights averaged over all steps until the end of each epoch.

    Statistics are those of BLEU, *Shape:* (n, 9), or gains by another metric, *Shape:* (n, 1); orders are
    those of the sentences in each epoch, *Shape:* (n_epochs, n_sentences). A weight whose `least` is its
    `most` stays.

    Returns:
        *Shape:* (n_epochs + 1, n_features).
    """
    weights = start.copy()
    total = np.zeros_like(weights)
    averages = np.empty((len(orders) + 1, len(weights)))
    background = np.ones(statistics.shape[1])
    for i in range(len(weights)):
        averages[0, i] = start[i]
    n_steps = 0
    for epoch in range(len(orders)):
        for sentence in orders[epoch]:
            first, last = offsets[sentence], offsets[sentence + 1]
            hope, fear, gap = _hope_and_fear(features, statistics, first, last, weights, background)
            if gap > 0.0:
                _step(weights, features[hope], features[fear], gap, least, most)
                for i in range(len(background)):
                    background[i] = DECAY * background[i] + statistics[hope, i]
            for i in range(len(weights)):
                total[i] += weights[i]
            n_steps += 1
        for i in range(len(weights)):
            averages[epoch + 1, i] = total[i] / n_steps
    return averages


@inner
def _step(weights, hope, fear, gap, least, most):  # type: ignore[no-untyped-def]
    """Move the weights by the smallest step making the scores differ by the gap, LARGEST_STEP at most."""
    loss, norm = 0.0, 0.0
    for i in range(len(weights)):
        difference = hope[i] - fear[i]
        loss += weights[i] * difference
        if least[i] < most[i]:
            norm += difference * difference
    loss = gap - loss
    if loss > 0.0 and norm > 0.0:
        length = min(LARGEST_STEP, loss / norm)
        for i in range(len(weights)):
            if least[i] < most[i]:
                moved = weights[i] + length * (hope[i] - fear[i])
                weights[i] = min(max(moved, least[i]), most[i])


@inner
def _hope_and_fear(features, statistics, first, last, weights, background):  # type: ignore[no-untyped-def]
    """The first hypotheses with the highest score + gain and score - gain, and the difference in gain."""
    hope = fear = first
    hope_value = fear_value = -np.inf
    hope_gain = fear_gain = 0.0
    for row in range(first, last):
        score = 0.0
        for column in range(len(weights)):
            score += features[row, column] * weights[column]
        gain = statistics[row, 0]
        if statistics.shape[1] > 1:
            gain = _background_bleu(statistics[row], background)
        if score + gain > hope_value:
            hope, hope_value, hope_gain = row, score + gain, gain
        if score - gain > fear_value:
            fear, fear_value, fear_gain = row, score - gain, gain
    return hope, fear, hope_gain - fear_gain


@inner
def _background_bleu(statistics, background):  # type: ignore[no-untyped-def]
    """BLEU (0 to 1) of a hypothesis amid past ones, times reference words (Chiang et al. 2008)."""
    precision = 1.0
    for order in range(MAX_ORDER):
        matches = statistics[2 * order] + background[2 * order]
        precision *= np.divide(matches, statistics[2 * order + 1] + background[2 * order + 1])
    n_words = statistics[1] + background[1]
    n_reference_words = statistics[8] + background[8]
    penalty = np.exp(min(0.0, 1.0 - n_reference_words / n_words))
    return np.sqrt(np.sqrt(precision)) * penalty * n_reference_words
