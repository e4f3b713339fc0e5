"""The optimisers with other metrics than BLEU, and BLEU the general way."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tuning.metrics.bleu import BLEU, References
from tuning.metrics.chrf import ChrfReferences
from tuning.metrics.column_metric import COLUMN
from tuning.metrics.edit_rates import (
    CerReferences,
    TerReferences,
    WordAccuracyReferences,
)
from tuning.metrics.metric import Metric, MetricReferences, MixedReferences
from tuning.optimisers.by_name import OPTIMIZER_NAMES, OptimizerName, load_optimizer
from tuning.optimisers.contract import MertConfig, OptimizerConfig
from tuning.optimisers.envelope import Direction, best_step
from tuning.optimisers.kbmira import LARGEST_STEP, _arrange, _averages
from tuning.optimisers.nbest_pool import NBestPool, make_pool, spread_within, weighted_scores
from tuning.optimisers.xbleu import expected_gain

N_SENTENCES, N_HYPOTHESES = 8, 12
QUICK = OptimizerConfig(mert=MertConfig(n_restarts=2, n_directions=2, small_pool_work=0))
COUNTERS = [References, ChrfReferences, TerReferences, WordAccuracyReferences, CerReferences]


class PlainBleu(Metric):
    """BLEU by what all metrics have."""

    def value(self, sums: Any) -> NDArray[np.float64]:
        return BLEU.value(sums)

    def quality(self, statistics: Any) -> NDArray[np.float64]:
        return BLEU.quality(statistics)

    def gains(self, statistics: Any) -> None:
        return None


def texts() -> tuple[list[list[bytes]], list[tuple[int, bytes]]]:
    """References, and hypotheses with some of their words."""
    rng = random.Random(1)
    references, hypotheses = [], []
    for number in range(N_SENTENCES):
        words = [f"w{rng.randrange(30)}" for _ in range(10)]
        references.append([" ".join(words).encode()])
        for _ in range(N_HYPOTHESES):
            share = rng.uniform(0.5, 1)
            kept = [word if rng.random() < share else f"x{rng.randrange(30)}" for word in words]
            hypotheses.append((number, " ".join(kept[: rng.randint(7, 10)]).encode()))
    return references, hypotheses


def pool_of(counter: MetricReferences, hypotheses: list[tuple[int, bytes]]) -> NBestPool:
    """Three features: one tells how good a hypothesis is, and two do not."""
    statistics = counter.statistics(hypotheses)
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((len(hypotheses), 3))
    noise[:, 1] += 20 * counter.metric.quality(statistics)
    ids = np.array([number for number, _ in hypotheses])
    names = ("A_0", "B_0", "C_0")
    return make_pool(names, ids, noise, statistics, counter.metric)


def counted(kind: Any) -> NBestPool:
    references, hypotheses = texts()
    return pool_of(kind(references), hypotheses)


def of_column() -> NBestPool:
    references, hypotheses = texts()
    pool = pool_of(ChrfReferences(references), hypotheses)
    numbers = pool.metric.value(pool.statistics) / 100
    statistics = np.column_stack([numbers, np.ones(len(numbers))])
    return NBestPool(pool.names, pool.features, statistics, pool.sentence_ids, pool.offsets, COLUMN)


def of_several() -> NBestPool:
    references, hypotheses = texts()
    counters = [(References(references), 0.5), (TerReferences(references), 0.5)]
    return pool_of(MixedReferences("bleu=0.5,ter=0.5", counters), hypotheses)


POOLS = {kind.__name__: counted(kind) for kind in COUNTERS[1:]} | {
    "column": of_column(),
    "several": of_several(),
}


@pytest.mark.parametrize("name", POOLS)
def test_the_line_search_finds_the_best_of_a_fine_grid(name: str) -> None:
    pool = POOLS[name]
    rng = np.random.default_rng(3)
    for _ in range(5):
        start, vector = rng.standard_normal((2, 3))
        scores = weighted_scores(pool.features, start)
        step, level = best_step(pool, Direction.of(pool, vector), scores)
        on_grid = [pool.goodness(start + x * vector) for x in np.linspace(-20, 20, 4001)]
        reached = pool.goodness(start + step * vector)
        assert reached == pytest.approx(pool.metric.sign * pool.metric.sign * level)
        assert reached >= max(on_grid) - 1e-9


@pytest.mark.parametrize("optimizer", OPTIMIZER_NAMES)
@pytest.mark.parametrize("name", POOLS)
def test_each_optimiser_improves_each_metric(name: str, optimizer: OptimizerName) -> None:
    pool = POOLS[name]
    start = np.array([1.0, 0.1, 0.0])
    result = load_optimizer(optimizer)(pool, start[None], QUICK, 1, 1)
    sign = pool.metric.sign
    found = np.array([result.weights[column] for column in pool.names])
    assert result.bleu == pytest.approx(float(pool.metric.value(pool.statistics_of(found))))
    assert sign * result.bleu > pool.goodness(start)
    influence = np.abs(found * spread_within(pool))
    assert influence[1] > influence[0]
    assert len(result.trace) > 1 and sign * result.trace[-1] >= sign * result.trace[0]


@pytest.mark.parametrize("optimizer", ["mert", "pro"])
def test_bleu_the_general_way_gives_the_weights_of_bleu(optimizer: OptimizerName) -> None:
    pool = counted(References)
    general = NBestPool(
        pool.names,
        pool.features,
        pool.statistics,
        pool.sentence_ids,
        pool.offsets,
        PlainBleu("plain", "plain", 1),
    )
    start = np.array([[1.0, 0.1, 0.0]])
    optimize = load_optimizer(optimizer)
    expected, found = (optimize(each, start, QUICK, 1, 1) for each in (pool, general))
    assert found.weights == pytest.approx(expected.weights)
    assert found.trace == pytest.approx(expected.trace)


def test_batch_mira_follows_the_gains() -> None:
    """Algorithm 1 of Cherry & Foster (2012) with a gain for each hypothesis, written plainly."""
    pool = counted(ChrfReferences)
    gains = pool.metric.gains(pool.statistics)
    assert gains is not None
    rng = np.random.default_rng(4)
    orders = np.array([rng.permutation(N_SENTENCES) for _ in range(3)])
    start = np.array([0.5, 0.1, -0.2])
    weights, visited = start.copy(), []
    for sentence in orders.ravel():
        rows = slice(pool.offsets[sentence], pool.offsets[sentence + 1])
        features, own = pool.features[rows], gains[rows]
        scores = features @ weights
        hope, fear = int(np.argmax(scores + own)), int(np.argmax(scores - own))
        difference = features[hope] - features[fear]
        loss = own[hope] - own[fear] - weights @ difference
        if own[hope] > own[fear] and loss > 0:
            weights = weights + min(LARGEST_STEP, loss / (difference @ difference)) * difference
        visited.append(weights)
    unbounded = np.full(3, np.inf)
    lists = _arrange(pool.features, gains[:, None], pool.offsets)
    found = _averages(lists, orders, start, -unbounded, unbounded)
    assert found[-1].tolist() == pytest.approx(np.mean(visited, axis=0).tolist())


def test_the_expected_gain_is_that_of_the_definition_and_so_is_its_gradient() -> None:
    pool = counted(TerReferences)
    gains = pool.metric.gains(pool.statistics)
    assert gains is not None

    def plain(weights: NDArray[np.float64]) -> float:
        total = 0.0
        for first, last in zip(pool.offsets[:-1], pool.offsets[1:], strict=True):
            shares = np.exp(pool.features[first:last] @ weights)
            total += float(shares @ gains[first:last] / shares.sum())
        return total / N_SENTENCES

    weights = np.array([0.3, -0.2, 0.1])
    value, gradient = expected_gain(pool.features, gains, pool.offsets, weights)
    assert value == pytest.approx(plain(weights))
    steps = 1e-6 * np.eye(3)
    slopes = [(plain(weights + step) - plain(weights - step)) / 2e-6 for step in steps]
    assert gradient.tolist() == pytest.approx(slopes, rel=1e-4)
