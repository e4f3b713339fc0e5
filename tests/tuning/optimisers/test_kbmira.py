"""Batch MIRA and PRO by hand and against Moses's kbmira, and the steps in its log, by a plain transcription."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from moses_bridge.formats.tuning_data import read_features, read_init_opt, read_scores
from tests.tuning.optimisers.pools import RIGHT, WRONG, pool_of_choices
from tuning.metrics.bleu import bleu
from tuning.optimisers.by_name import OPTIMIZER_NAMES, OptimizerName, load_optimizer
from tuning.optimisers.contract import Optimizer, OptimizerConfig
from tuning.optimisers.kbmira import _arrange, _averages, _gain, optimize_kbmira
from tuning.optimisers.nbest_pool import make_pool
from tuning.optimisers.pro import optimize_pro

if TYPE_CHECKING:
    from tests.tuning.conftest import MosesIteration

NO_BOUNDS = np.full(2, -np.inf), np.full(2, np.inf)
LONGER = [6, 8, 5, 7, 4, 6, 3, 5, 6]
SHORTER = [2, 3, 1, 2, 0, 1, 0, 0, 4]
Numbers = NDArray[np.float64]
BOTH = pytest.mark.parametrize("optimize", [optimize_kbmira, optimize_pro])


@njit
def compiled_gains(lists, background, gains):  # type: ignore[no-untyped-def]
    """Compiled code alone can call the function."""
    _gain(lists, 0, background, gains)


def background_bleu(statistics: list[int], background: Numbers) -> float:
    """The formula, in words of the reference."""
    sums = np.array(statistics) + background
    precision = np.prod(sums[0:8:2] / sums[1:8:2]) ** 0.25
    return float(precision * np.exp(min(0, 1 - sums[8] / sums[1])) * sums[8])


def averages(features: Numbers, statistics: Any, offsets: Any, *further: Any) -> Numbers:
    """The weights after each epoch."""
    names = tuple(f"F{n}_0" for n in range(features.shape[1]))
    ids = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    pool = make_pool(names, ids, features, np.asarray(statistics))
    return np.asarray(_averages(_arrange(pool), *further))


def test_background_bleu_is_the_formula() -> None:
    background = np.array([2.0, 4, 1, 3, 1, 2, 1, 1, 5])
    assert WRONG[8] + background[8] > WRONG[1] + background[1]
    precision = np.prod([5 / 10, 2 / 8, 2 / 6, 2 / 4]) ** 0.25
    expected = precision * np.exp(1 - 11 / 10) * 11
    assert background_bleu(WRONG, background) == pytest.approx(expected)
    rows, gains = [RIGHT, LONGER, WRONG, SHORTER, LONGER], np.empty(4)
    features = np.arange(5.0)[:, None]
    lists = _arrange(make_pool(("F0_0",), np.zeros(5, np.int64), features, np.array(rows)))
    compiled_gains(lists, background, gains)  # equal counts have one gain
    assert gains[lists.kinds] == pytest.approx([background_bleu(row, background) for row in rows])


def test_one_step_of_mira_by_hand() -> None:
    """From zero weights the step is min(C, loss / norm) times the difference, loss the gap in BLEU."""
    features = np.array([[1.0, 0.0], [-1.0, 0.5]])
    statistics = np.array([RIGHT, WRONG], np.int32)
    ones = np.ones(9)
    gap = background_bleu(RIGHT, ones) - background_bleu(WRONG, ones)
    difference = features[0] - features[1]
    step = min(0.01, gap / (difference @ difference))
    found = averages(
        features, statistics, np.array([0, 2]), np.array([[0]]), np.zeros(2), *NO_BOUNDS
    )
    assert found[0].tolist() == [0, 0]
    assert found[1] == pytest.approx(step * difference)


def test_a_weight_that_stays_counts_in_the_scores_of_mira() -> None:
    """The frozen column tells the hypotheses apart by more than their BLEU: nothing is left to learn."""
    features = np.array([[1.0, 9.0], [-1.0, 0.0]])
    statistics = np.array([RIGHT, WRONG], np.int32)
    start, least, most = np.array([0.0, 1.0]), np.array([-np.inf, 1]), np.array([np.inf, 1])
    found = averages(features, statistics, np.array([0, 2]), np.array([[0]]), start, least, most)
    assert found.tolist() == [[0, 1]] * 2
    weak = features * [1, 0.01]
    found = averages(weak, statistics, np.array([0, 2]), np.array([[0]]), start, least, most)
    assert found[1].tolist() == pytest.approx([0.02, 1])


def test_only_free_weights_count_in_the_length_of_a_step() -> None:
    """By hand: amid counts of 1 the BLEUs times 7 words are 7 and 7 (4/7 2/6 2/5 2/4)^(1/4)."""
    gap = 7 * (1 - (4 / 105) ** 0.25)
    statistics = np.array([RIGHT, WRONG], np.int32)
    one_sentence = statistics, np.array([0, 2]), np.array([[0]])
    bounds = np.array([-np.inf, 0]), np.array([np.inf, 0])
    both = averages(np.array([[20.0, 20], [-20, -20]]), *one_sentence, np.zeros(2), *bounds)
    assert both[1].tolist() == pytest.approx([gap / 40, 0])
    frozen_alone = averages(np.array([[1.0, 20], [1, -20]]), *one_sentence, np.zeros(2), *bounds)
    assert frozen_alone[1].tolist() == [0, 0]


def test_of_equal_hopes_and_of_equal_fears_the_first_is_taken() -> None:
    features = np.array([[1.0, 0], [0, 9], [-1, 0], [0, -9]])
    statistics = np.array([RIGHT, RIGHT, WRONG, WRONG], np.int32)
    learned = averages(
        features, statistics, np.array([0, 4]), np.array([[0]]), np.zeros(2), *NO_BOUNDS
    )
    assert learned[1].tolist() == pytest.approx([0.02, 0])


def test_mira_does_not_move_where_the_scores_differ_enough() -> None:
    features = np.array([[1.0, 0.0], [-1.0, 0.5]])
    statistics = np.array([RIGHT, WRONG], np.int32)
    start = np.array([50.0, 0.0])
    found = averages(
        features, statistics, np.array([0, 2]), np.array([[0], [0]]), start, *NO_BOUNDS
    )
    assert found.tolist() == [start.tolist()] * 3


def test_the_weights_are_the_mean_over_orders_of_the_sentences() -> None:
    """Each order with its seed, learned by itself; the last average, whatever its BLEU on the pool."""
    pool, start = pool_of_choices(12), np.array([-0.5, 0.5, 0.2])
    free = np.array([True, True, False])
    least, most = np.where(free, -np.inf, start), np.where(free, np.inf, start)
    learned = []
    for number in range(8):
        rng = np.random.default_rng((3, number))
        orders = np.array([rng.permutation(12) for _ in range(60)])
        texts = (pool.features, pool.statistics, pool.offsets)
        learned.append(averages(*texts, orders, start, least, most)[-1])
    mean = np.mean(learned, axis=0)
    result = optimize_kbmira(pool, start[None], OptimizerConfig(), 3, 1)
    assert list(result.weights.values()) == pytest.approx(mean / np.abs(mean).sum())
    reached = [float(bleu(pool.statistics_of(weights))) for weights in learned]
    assert result.restarts == pytest.approx(reached)
    before = float(bleu(pool.statistics_of(start)))
    assert result.trace == pytest.approx([before, result.bleu])


def test_weights_that_lose_bleu_on_the_pool_are_no_reason_to_keep_the_start() -> None:
    """A run that keeps a lucky start has learned nothing, and its loop would end there."""
    pool = pool_of_choices(12)
    start = np.array([[1.0, -1.0, 0.5]])
    assert bleu(pool.statistics_of(start[0])) == pytest.approx(100)
    result = optimize_kbmira(pool, start * 0.01, OptimizerConfig(), 1, 1)
    assert list(result.weights.values()) != pytest.approx((start[0] / 2.5).tolist(), abs=1e-3)


@BOTH
def test_the_right_hypotheses_are_learned(optimize: Optimizer) -> None:
    pool = pool_of_choices(40)
    start = np.array([[-0.5, 0.5, 0.2]])
    result = optimize(pool, start, OptimizerConfig(), 1, 1)
    assert bleu(pool.statistics_of(start[0])) < 50
    assert result.bleu == pytest.approx(100)
    assert result.frozen == ("C_0",)
    assert result.weights["A_0"] > result.weights["B_0"]


@BOTH
def test_threads_change_nothing(optimize: Optimizer) -> None:
    pool = pool_of_choices(30)
    start = np.array([[-0.5, 0.5, 0.2]])
    one, three = (optimize(pool, start, OptimizerConfig(), 5, jobs) for jobs in (1, 3))
    assert one == three


@BOTH
def test_further_starts_are_not_looked_at(optimize: Optimizer) -> None:
    pool = pool_of_choices(30)
    starts = np.array([[-0.5, 0.5, 0.2], [0.1, 0.8, 0.1]])
    both, first = (optimize(pool, starts[:n], OptimizerConfig(), 5, 1) for n in (2, 1))
    assert both == first
    assert both != optimize(pool, starts[1:], OptimizerConfig(), 5, 1)


@BOTH
def test_frozen_weights_keep_their_share(optimize: Optimizer) -> None:
    start = np.array([[0.2, 0.4, 0.3]])
    config = OptimizerConfig(frozen=("B_0",))
    result = optimize(pool_of_choices(30), start, config, 1, 1)
    assert result.frozen == ("B_0", "C_0")
    assert result.weights["B_0"] / result.weights["C_0"] == pytest.approx(4 / 3)


@BOTH
def test_hypotheses_that_are_equally_good_leave_the_start(optimize: Optimizer) -> None:
    pool = pool_of_choices(5)
    equal = np.tile(np.array(RIGHT, np.int32), (len(pool), 1))
    pool = make_pool(pool.names, np.repeat(np.arange(5), 2), pool.features, equal)
    start = np.array([[0.5, 0.25, 0.25]])
    result = optimize(pool, start, OptimizerConfig(), 1, 1)
    assert list(result.weights.values()) == pytest.approx(start[0].tolist())


@pytest.mark.parametrize("name", OPTIMIZER_NAMES)
def test_a_frozen_name_that_is_no_feature_is_an_error(name: OptimizerName) -> None:
    config = OptimizerConfig(frozen=("LM7_0",))
    with pytest.raises(ConfigError, match="no feature LM7_0"):
        load_optimizer(name)(pool_of_choices(3), np.ones((1, 3)), config, 1, 1)


@BOTH
def test_bleu_is_at_least_that_of_mosess_kbmira(
    first_iteration: MosesIteration, optimize: Optimizer
) -> None:
    start = first_iteration.start[None]
    result = optimize(first_iteration.pool, start, OptimizerConfig(), 1, 2)
    assert result.bleu >= first_iteration.kbmira_bleu


@pytest.mark.slow
@BOTH
def test_bleu_is_at_least_that_of_mosess_kbmira_on_merged_lists(
    second_iteration: MosesIteration, optimize: Optimizer
) -> None:
    start = second_iteration.start[None]
    result = optimize(second_iteration.pool, start, OptimizerConfig(), 1, 2)
    assert result.bleu >= second_iteration.kbmira_bleu


# After some 35 epochs kbmira's float32 takes another hope or fear than float64 does.
N_EPOCHS = 30


@dataclass(frozen=True)
class Lists:
    """Features and BLEU statistics of each sentence's hypotheses, and where the weights start."""

    features: list[Numbers]
    statistics: list[Numbers]
    start: Numbers


@pytest.fixture(scope="module")
def lists(small_golden: Path) -> Lists:
    """Of the first iteration, the hypotheses that kbmira keeps: see `MosesIteration` in conftest.py."""
    folder = small_golden / "mert"
    text = (folder / "kbmira.rows").read_text()
    rows = [[int(number) for number in line.split()] for line in text.split("\n")[:-1]]

    def kept(blocks: Iterator[NDArray[np.generic]]) -> list[Numbers]:
        return [block[chosen].astype(float) for block, chosen in zip(blocks, rows, strict=True)]

    return Lists(
        kept(block.values for block in read_features(folder / "run1.features.dat.gz")),
        kept(block.values for block in read_scores(folder / "run1.scores.dat.gz")),
        read_init_opt(folder / "run1.init.opt")[0],
    )


def background_bleus(statistics: Numbers, background: Numbers) -> Numbers:
    sums = statistics + background
    precision = np.prod(sums[:, 0:8:2] / sums[:, 1:8:2], axis=1) ** 0.25
    return precision * np.exp(np.minimum(0, 1 - sums[:, 8] / sums[:, 1])) * sums[:, 8]


def epochs(lists: Lists) -> Iterator[list[tuple[Numbers, float]]]:
    """Cherry and Foster (2012), algorithm 1: weights and loss after each sentence, in order."""
    weights, background = lists.start, np.ones(9)
    for _ in range(N_EPOCHS):
        steps = []
        for features, statistics in zip(lists.features, lists.statistics, strict=True):
            scores, values = features @ weights, background_bleus(statistics, background)
            hope, fear = int(np.argmax(scores + values)), int(np.argmax(scores - values))
            loss = 0.0
            if values[hope] > values[fear]:
                difference = features[hope] - features[fear]
                loss = max(0.0, values[hope] - values[fear] - weights @ difference)
                if loss > 0:
                    weights = weights + min(0.01, loss / (difference @ difference)) * difference
                background = 0.999 * background + statistics[hope]
            steps.append((weights, loss))
        yield steps


def bleu_of_best(lists: Lists, weights: Numbers) -> float:
    chosen = [
        statistics[int(np.argmax(features @ weights))]
        for features, statistics in zip(lists.features, lists.statistics, strict=True)
    ]
    return float(bleu(np.sum(chosen, axis=0)))


def test_updates_losses_and_bleu_are_those_of_kbmira(lists: Lists, small_golden: Path) -> None:
    log = (small_golden / "mert" / "kbmira.no-shuffle.log").read_text()
    logged = re.findall(r"(\d+)/50 updates, avg loss = (\S+), BLEU = (\S+)", log)
    # Its average leaves out the steps without an update, and counts the start.
    total, n_updates = lists.start, 0
    for steps, (updates, loss, value) in zip(epochs(lists), logged[:N_EPOCHS], strict=True):
        updated = [weights for weights, step_loss in steps if step_loss > 0]
        total, n_updates = total + np.sum(updated, axis=0), n_updates + len(updated)
        assert len(updated) == int(updates)
        assert np.mean([loss for _, loss in steps]) == pytest.approx(float(loss), abs=5e-4)
        assert bleu_of_best(lists, total / n_updates) == pytest.approx(100 * float(value), abs=1e-4)


def test_our_averages_are_those_of_the_algorithm(lists: Lists) -> None:
    sizes = [len(features) for features in lists.features]
    n_sentences, no_bound = len(sizes), np.full(len(lists.start), np.inf)
    features, statistics = np.concatenate(lists.features), np.concatenate(lists.statistics)
    found = averages(
        features,
        statistics,
        np.cumsum([0, *sizes]),
        np.tile(np.arange(n_sentences), (N_EPOCHS, 1)),
        lists.start,
        -no_bound,
        no_bound,
    )
    total = np.zeros_like(lists.start)
    for number, steps in enumerate(epochs(lists), start=1):
        total = total + np.sum([weights for weights, _ in steps], axis=0)
        assert found[number] == pytest.approx(total / (number * n_sentences), rel=1e-9)
