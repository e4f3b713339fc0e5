"""k-best batch MIRA (Cherry & Foster 2012, section 3 and algorithm 1) over a pool.

Each sentence pulls the weights from its fear (model score high, BLEU low) to its hope (both high) by the
smallest step making the scores differ as the BLEUs do. Another metric than BLEU gives each hypothesis a
gain of its own (`Metric.gains`), in the place of its BLEU amid past sentences. The settings are those of
Moses's kbmira. Weights are averaged over several orders of the sentences, as Cettolo et al. (2011) average
over runs of an optimiser; docs/decisions/optimisers.md has the reason.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

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
from tuning.optimisers.nbest_pool import NBestPool, row_hashes

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
    counts = pool.statistics if gains is None else gains[:, None]
    lists = _arrange(pool.features, np.asarray(counts, np.float64), pool.offsets)

    def learn(number: int) -> NDArray[np.float64]:
        rng = np.random.default_rng((seed, number))
        n_sentences = len(pool.sentence_ids)
        orders = np.array([rng.permutation(n_sentences) for _ in range(N_EPOCHS)])
        averages = _averages(
            lists,
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


class _Lists(NamedTuple):
    """The lists of a pool, by sentence as columns: loops over a column become vector operations.

    Attributes:
        counts: statistics of BLEU, *Shape:* (n, 9), or gains by another metric, *Shape:* (n, 1).
        kinds: place of the hypothesis's counts among the distinct ones of its sentence, 40% of all; *Shape:*
            (n,).
        kind_offsets: the first distinct counts of each sentence, and the end of the last one's.
        kind_columns: the distinct counts of each sentence, column by column.
    """

    offsets: Any
    features: Any
    columns: Any
    counts: Any
    kinds: Any
    kind_offsets: Any
    kind_columns: Any


def _arrange(
    features: NDArray[np.float64], counts: NDArray[np.float64], offsets: NDArray[np.int64]
) -> _Lists:
    sizes = np.diff(offsets)
    hashes = row_hashes(np.column_stack([np.repeat(np.arange(len(sizes)), sizes), counts]))
    _, firsts, kinds = np.unique(hashes, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    kinds, firsts = np.argsort(order)[kinds], firsts[order]
    kind_offsets = np.searchsorted(firsts, offsets)
    return _Lists(
        offsets,
        features,
        _columns(features, offsets),
        counts,
        kinds - np.repeat(kind_offsets[:-1], sizes),
        kind_offsets,
        _columns(counts[firsts], kind_offsets),
    )


def _columns(rows: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.concatenate([rows[first:last].T.ravel() for first, last in pairwise(offsets)])


@njit(nogil=True)
def _averages(lists, orders, start, least, most):  # type: ignore[no-untyped-def]
    """The start, then the weights averaged over all steps until each epoch ends, (n_epochs + 1, n_features)."""
    weights = start.copy()
    total = np.zeros_like(weights)
    averages = np.empty((len(orders) + 1, len(weights)))
    background = np.ones(lists.counts.shape[1])
    longest = 0
    for sentence in range(len(lists.offsets) - 1):
        longest = max(longest, lists.offsets[sentence + 1] - lists.offsets[sentence])
    scores, gains = np.empty(longest), np.empty(longest)
    for i in range(len(weights)):
        averages[0, i] = start[i]
    n_steps = 0
    for epoch in range(len(orders)):
        for sentence in orders[epoch]:
            _score(lists, sentence, weights, scores)
            _gain(lists, sentence, background, gains)
            hope, fear, gap = _hope_and_fear(lists, sentence, scores, gains)
            if gap > 0.0:
                _step(weights, lists.features[hope], lists.features[fear], gap, least, most)
                for i in range(len(background)):
                    background[i] = DECAY * background[i] + lists.counts[hope, i]
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
def _score(lists, sentence, weights, scores):  # type: ignore[no-untyped-def]
    first = lists.offsets[sentence]
    n = lists.offsets[sentence + 1] - first
    for i in range(n):
        scores[i] = 0.0
    start = first * len(weights)
    for column in range(len(weights)):
        values, weight = lists.columns[start : start + n], weights[column]
        for i in range(n):
            scores[i] += values[i] * weight
        start += n


@inner
def _gain(lists, sentence, background, gains):  # type: ignore[no-untyped-def]
    """Write the gain of each kind; BLEU amid past sentences, times reference words (Chiang et al. 2008)."""
    first = lists.kind_offsets[sentence]
    n = lists.kind_offsets[sentence + 1] - first
    start = first * len(background)
    counts = lists.kind_columns[start : start + n * len(background)]
    if len(background) == 1:
        for i in range(n):
            gains[i] = counts[i]
        return
    for i in range(n):
        gains[i] = 1.0
    for order in range(MAX_ORDER):
        matches, totals = counts[2 * order * n :], counts[(2 * order + 1) * n :]
        past_matches, past_total = background[2 * order], background[2 * order + 1]
        for i in range(n):
            gains[i] *= np.divide(matches[i] + past_matches, totals[i] + past_total)
    words, reference_words = counts[n:], counts[8 * n :]
    for i in range(n):
        n_words, n_reference_words = words[i] + background[1], reference_words[i] + background[8]
        penalty = np.exp(min(0.0, 1.0 - n_reference_words / n_words))
        gains[i] = np.sqrt(np.sqrt(gains[i])) * penalty * n_reference_words


@inner
def _hope_and_fear(lists, sentence, scores, gains):  # type: ignore[no-untyped-def]
    """The first hypotheses with the highest score + gain and score - gain, and the difference in gain."""
    first, last = lists.offsets[sentence], lists.offsets[sentence + 1]
    kinds = lists.kinds[first:last]
    hope = fear = 0
    hope_value = fear_value = -np.inf
    for i in range(last - first):
        gain = gains[kinds[i]]
        if scores[i] + gain > hope_value:
            hope, hope_value = i, scores[i] + gain
        if scores[i] - gain > fear_value:
            fear, fear_value = i, scores[i] - gain
    return first + hope, first + fear, gains[kinds[hope]] - gains[kinds[fear]]
