"""The loss of predicted words against the softmax written out in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from rescorer.layers.predicted import Predicted, UpdateLoss, WordSampler, output_loss

Array = NDArray[np.float64]
N_WORDS, WIDTH = 12, 4
PREDICTED = Predicted(np.array([0, 0, 2]), np.array([3, 11, 3]), np.array([1.0, 2.0, 0.5]))


@pytest.fixture
def output() -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(WIDTH, N_WORDS)


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(2))


def logits_of(output: nn.Linear, rows: torch.Tensor) -> Array:
    weight, bias = (each.detach().double().numpy() for each in (output.weight, output.bias))
    return np.asarray(rows.double().numpy() @ weight.T + bias)


def loss_by_hand(logits: Array, words: NDArray[np.int64]) -> float:
    log_z = np.log(np.exp(logits).sum(1))
    places = PREDICTED.rows
    return float((PREDICTED.weights * (log_z[places] - logits[places, words])).sum())


def test_over_all_words(output: nn.Linear, rows: torch.Tensor) -> None:
    expected = loss_by_hand(logits_of(output, rows), PREDICTED.words)
    found = output_loss(output, rows, PREDICTED, torch.float32)
    assert found.item() == pytest.approx(expected, rel=1e-5)
    update = UpdateLoss(output, None, torch.float32, 0.0)
    assert update.of(rows, PREDICTED, np.random.default_rng(1)).item() == found.item()


def test_over_a_sample(output: nn.Linear, rows: torch.Tensor) -> None:
    """Logits of the words drawn, less the log of the probability that each takes part."""
    sampler = WordSampler(np.full(N_WORDS, 1 / N_WORDS), 5, 4)
    words, log_inclusion = sampler.draw(PREDICTED.words, np.random.default_rng(3))
    assert len(words) < N_WORDS
    corrected = logits_of(output, rows)[:, words] - log_inclusion
    expected = loss_by_hand(corrected, np.searchsorted(words, PREDICTED.words))
    update = UpdateLoss(output, sampler, torch.float32, 0.0)
    found = update.of(rows, PREDICTED, np.random.default_rng(3))
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_a_word_that_the_layer_lacks(output: nn.Linear, rows: torch.Tensor) -> None:
    lacking = PREDICTED._replace(words=np.array([3, N_WORDS, 3]))
    with pytest.raises(IndexError):
        output_loss(output, rows, lacking, torch.float32)


SHARES = np.array([0.5, 0.3, 0.1, 0.05, 0.05, 0.0])


def test_words_of_the_update_take_part_and_so_many_others() -> None:
    sampler = WordSampler(SHARES, update_words=3, n_sampled=2)
    for seed in range(20):
        words, log_inclusion = sampler.draw(np.array([4, 4, 1]), np.random.default_rng(seed))
        assert {1, 4} <= set(words.tolist()) and 2 <= len(words) <= 4
        assert list(words) == sorted(set(words)) and len(log_inclusion) == len(words)


def test_a_word_takes_part_as_often_as_is_said() -> None:
    sampler, rng = WordSampler(SHARES, update_words=3, n_sampled=2), np.random.default_rng(1)
    taken, known = np.zeros(6), np.zeros(6)
    for _ in range(4000):
        words, log_inclusion = sampler.draw(rng.choice(6, 3, p=SHARES), rng)
        taken[words] += 1
        known[words] = np.exp(log_inclusion)
    np.testing.assert_allclose(taken / 4000, known, atol=0.03)


def test_a_sample_of_all_words_corrects_nothing() -> None:
    words, log_inclusion = WordSampler(SHARES, 3, 99).draw(np.array([0]), np.random.default_rng(1))
    assert words.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(log_inclusion, 0, atol=1e-12)
