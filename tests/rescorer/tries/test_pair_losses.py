"""Losses of updates over some words, against plain sums in float64."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec.task import EncDecTrainingConfig
from rescorer.training.loop import LoopConfig
from rescorer.training.seeded_batch import SeededBatch
from rescorer.training.word_counts import WordCounts
from rescorer.tries.pair_losses import PairWords, RecurrentLosses
from tests.rescorer.tries.conftest import (
    MODEL,
    N_TARGET,
    losses_of,
    make_data,
    make_network,
    pair_by_pair,
)

ROWS = np.array([3, 50, 7, 88, 51])
BATCH = SeededBatch(ROWS, (4, 0, 2))
SAMPLING = EncDecTrainingConfig(batch_pairs=5, n_sampled=3, model=MODEL)


def test_shares_are_those_of_the_targets_with_their_ends() -> None:
    """Of "x x y", "x", "z" and "": five words and four ends; z is not in the shortlist."""
    counts = WordCounts.of(Counter({b"x": 3, b"z": 1, b"y": 1}))
    words = PairWords.of(Shortlists(None, Vocabulary([b"y", b"x"])), counts, 4)
    np.testing.assert_allclose(words.target_shares, [4 / 9, 1 / 9, 1 / 9, 3 / 9])
    assert words.words_per_pair == 9 / 4


def test_an_update_takes_the_softmax_over_its_words_and_a_sample() -> None:
    """The logit of a word is lowered by the log of its chance to take part; the others are left out.

    The chance is 1 - (1 - share)^15 (1 - 3 / 13): five pairs of three words, three of thirteen words drawn.
    """
    network, data = make_network(), make_data()
    shares = np.arange(1.0, N_TARGET + 1) / np.arange(1, N_TARGET + 1).sum()
    words = PairWords(Shortlists(None, Vocabulary([])), shares, 3.0)
    lens = data.target_lens[ROWS]
    own = {int(word) for row, n in zip(ROWS, lens, strict=True) for word in data.targets[row][:n]}
    drawn = np.random.default_rng(BATCH.seed).choice(N_TARGET, 3, replace=False)
    takes_part = np.isin(np.arange(N_TARGET), [*own, 0, *drawn])
    lowered = np.where(takes_part, -np.log(1 - (1 - shares) ** 15 * (1 - 3 / N_TARGET)), -np.inf)
    with torch.no_grad():
        found = RecurrentLosses(network, SAMPLING, words).of_update(data, BATCH)
        network.output.bias += torch.from_numpy(lowered)
        expected = pair_by_pair(network, data, ROWS)
    assert not takes_part.all()
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_losses_of_parts_sum_up_to_that_of_the_batch() -> None:
    losses, data = losses_of(make_network(), SAMPLING), make_data()
    with torch.no_grad():
        whole = losses.of_update(data, BATCH)
        parts = [losses.of_update(data, part) for part in BATCH.parts(3)]
    assert len(parts) == 3
    assert sum(part.item() for part in parts) == pytest.approx(whole.item(), rel=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        EncDecTrainingConfig(n_sampled=0, model=MODEL),
        EncDecTrainingConfig(n_sampled=3, loop=LoopConfig(recipe="paper"), model=MODEL),
    ],
)
def test_without_a_sample_all_words_take_part(config: EncDecTrainingConfig) -> None:
    network, data = make_network(), make_data()
    with torch.no_grad():
        found = losses_of(network, config).of_update(data, BATCH)
        assert found.item() == pytest.approx(pair_by_pair(network, data, ROWS).item(), rel=1e-5)


def test_held_out_losses_are_exact() -> None:
    network, data = make_network(), make_data()
    with torch.no_grad():
        found = losses_of(network, SAMPLING).of_held_out(data, ROWS)
        assert found.item() == pytest.approx(pair_by_pair(network, data, ROWS).item(), rel=1e-5)
