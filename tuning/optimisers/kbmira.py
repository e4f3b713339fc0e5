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

from moses_bridge.base.progress import track
from moses_bridge.compiled.inner import inner
from moses_bridge.compiled.kept_code import njit
from tuning.optimisers.bounds import Bounds
from tuning.optimisers.contract import OptimizerConfig, OptimizerResult, free_columns, result_of
from tuning.optimisers.sentence_columns import sentence_columns
from tuning.pools.bleu_stats import MAX_ORDER
from tuning.pools.nbest_pool import NBestPool

N_EPOCHS = 60  # this and the next two are the defaults of kbmira.cpp
LARGEST_STEP = 0.01
DECAY = 0.999
N_SHUFFLES = 8  # orders of the sentences, whose weights are averaged
WORK_ROWS = 2  # of numbers for each hypothesis, beside its score and its value


def optimize_kbmira(
    pool: NBestPool,
    starts: NDArray[np.float64],
    config: OptimizerConfig,
    seed: int,
    jobs: int,
) -> OptimizerResult:
    """Batch MIRA from the first start, averaged over all steps and several orders; see `Optimizer`."""
    free = free_columns(pool, config)
    bounds = Bounds.of(pool.names, config.bounds)
    start = bounds.clip(starts[0])
    gains = pool.metric.gains(pool.statistics)
    lists = sentence_columns(pool.features, pool.statistics, pool.offsets, gains)

    def learn(number: int) -> NDArray[np.float64]:
        rng = np.random.default_rng((seed, number))
        n_sentences = len(pool.sentence_ids)
        orders = np.array([rng.permutation(n_sentences) for _ in range(N_EPOCHS)])
        averages = _averages(
            lists,
            pool.features,
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
def _averages(lists, features, orders, start, least, most):  # type: ignore[no-untyped-def]
    """The start, then the weights averaged over all steps until the end of each epoch.

    Args:
        lists: `SentenceColumns`.
        features: *Shape:* (n, n_features).
        orders: of the sentences in each epoch, *Shape:* (n_epochs, n_sentences).
        start: *Shape:* (n_features,).
        least: of each weight, *Shape:* (n_features,).
        most: of each weight, *Shape:* (n_features,); where it is the least one the weight stays.

    Returns:
        *Shape:* (n_epochs + 1, n_features).
    """
    weights = start.copy()
    total = np.zeros_like(weights)
    averages = np.empty((len(orders) + 1, len(weights)))
    background = np.ones(lists.statistics.shape[1])
    longest = 0
    for sentence in range(len(lists.offsets) - 1):
        longest = max(longest, lists.offsets[sentence + 1] - lists.offsets[sentence])
    work = np.empty((2 + WORK_ROWS, longest))
    for i in range(len(weights)):
        averages[0, i] = start[i]
    n_steps = 0
    for epoch in range(len(orders)):
        for sentence in orders[epoch]:
            hope, fear, gap = _hope_and_fear(lists, sentence, weights, background, work)
            if gap > 0.0:
                _step(weights, features[hope], features[fear], gap, least, most)
                for i in range(len(background)):
                    background[i] = DECAY * background[i] + lists.statistics[hope, i]
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
def _hope_and_fear(lists, sentence, weights, background, work):  # type: ignore[no-untyped-def]
    """The first hypotheses with the highest score + gain and score - gain, and the difference in gain.

    Args:
        lists: `SentenceColumns`.
        sentence: its number.
        weights: *Shape:* (n_features,).
        background: statistics of past sentences, *Shape:* (n_statistics,).
        work: room, *Shape:* (2 + WORK_ROWS, at least the sentence's hypotheses).
    """
    first = lists.offsets[sentence]
    n_hypotheses = lists.offsets[sentence + 1] - first
    scores, values = work[0], work[1]
    for i in range(n_hypotheses):
        scores[i] = 0.0
    for column in range(len(weights)):
        at = first * len(weights) + column * n_hypotheses
        of_column, weight = lists.features[at : at + n_hypotheses], weights[column]
        for i in range(n_hypotheses):
            scores[i] += of_column[i] * weight
    if len(lists.gains):
        values = lists.gains[first:]
    else:
        _background_bleus(lists, sentence, background, values, work[2:])
    kinds = lists.kinds[first : first + n_hypotheses]
    hope = fear = 0
    hope_value = fear_value = -np.inf
    for i in range(n_hypotheses):
        value = values[kinds[i]]
        if scores[i] + value > hope_value:
            hope, hope_value = i, scores[i] + value
        if scores[i] - value > fear_value:
            fear, fear_value = i, scores[i] - value
    return first + hope, first + fear, values[kinds[hope]] - values[kinds[fear]]


@inner
def _background_bleus(lists, sentence, background, values, work):  # type: ignore[no-untyped-def]
    """BLEU (0 to 1) of each distinct statistics amid past ones, times reference words (Chiang et al. 2008).

    Short loops over one column each, since the compiler makes vector operations of those.

    Args:
        lists: `SentenceColumns`.
        sentence: its number.
        background: statistics of past sentences, *Shape:* (9,).
        values: gets the BLEUs, *Shape:* (at least the sentence's kinds,).
        work: room, *Shape:* (WORK_ROWS, at least the sentence's kinds).
    """
    first, end = lists.kind_offsets[sentence], lists.kind_offsets[sentence + 1]
    n_kinds = end - first
    lengths = lists.lengths[first:end]
    first_totals = lists.total_offsets[sentence]
    n_totals = lists.total_offsets[sentence + 1] - first_totals
    amid, of_each = work[0], work[1]
    for i in range(n_kinds):
        values[i] = 1.0
    for order in range(MAX_ORDER):
        for k in range(n_totals):
            amid[k] = lists.totals[first_totals + k, order] + background[2 * order + 1]
        for i in range(n_kinds):
            of_each[i] = amid[lengths[i]]
        at, past = MAX_ORDER * first + order * n_kinds, background[2 * order]
        matches = lists.matches[at : at + n_kinds]
        for i in range(n_kinds):
            values[i] *= np.divide(matches[i] + past, of_each[i])
    penalties, n_words = work[0], work[1]
    for k in range(n_totals):
        n_reference_words = lists.totals[first_totals + k, MAX_ORDER] + background[8]
        n_own_words = lists.totals[first_totals + k, 0] + background[1]
        penalties[k] = np.exp(min(0.0, 1.0 - n_reference_words / n_own_words))
        n_words[k] = n_reference_words
    for i in range(n_kinds):
        values[i] = np.sqrt(np.sqrt(values[i]))
    for i in range(n_kinds):
        values[i] = values[i] * penalties[lengths[i]] * n_words[lengths[i]]
