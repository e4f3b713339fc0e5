"""The steps of batch MIRA: a plain transcription against the log of Moses's kbmira, ours against that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.formats.tuning_data import read_features, read_init_opt, read_scores
from tuning.metrics.bleu import bleu
from tuning.optimisers.kbmira import _averages

Numbers = NDArray[np.float64]
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


def background_bleu(statistics: Numbers, background: Numbers) -> Numbers:
    sums = statistics + background
    precision = np.prod(sums[:, 0:8:2] / sums[:, 1:8:2], axis=1) ** 0.25
    return precision * np.exp(np.minimum(0, 1 - sums[:, 8] / sums[:, 1])) * sums[:, 8]


def epochs(lists: Lists) -> Iterator[list[tuple[Numbers, float]]]:
    """Cherry and Foster (2012), algorithm 1: weights and loss after each sentence, in order."""
    weights, background = lists.start, np.ones(9)
    for _ in range(N_EPOCHS):
        steps = []
        for features, statistics in zip(lists.features, lists.statistics, strict=True):
            scores, values = features @ weights, background_bleu(statistics, background)
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
    found = _averages(
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
