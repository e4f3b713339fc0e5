from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.zoo.cstm.loss import cstm_loss, predicted_at
from rescorer.zoo.cstm.network import Cstm, CstmConfig, source_windows

N_SOURCE, N_TARGET = 11, 6
SIZES = CstmConfig(phrase_words=4, embedding_width=5, first_width=9, second_width=7)


def make_data(n_sources: int = 9, n_pairs: int = 70) -> EncodedPairs:
    rng = np.random.default_rng(8)

    def phrases(n: int, n_words: int) -> tuple[Any, Any]:
        lens = rng.integers(0, 5, n)
        ids = rng.integers(1, n_words, (n, 5)).astype(np.int32)
        ids[np.arange(5) >= lens[:, None]] = 0
        return ids, lens

    groups = np.sort(rng.integers(0, n_sources, n_pairs))
    sources, targets = phrases(n_sources, N_SOURCE), phrases(n_pairs, N_TARGET)
    return EncodedPairs(*sources, *targets, groups, rng.uniform(0.5, 3.0, n_pairs))


def make_network() -> Cstm:
    torch.manual_seed(3)
    network = Cstm(SIZES, N_SOURCE, N_TARGET).double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network


def pair_by_pair(network: Cstm, data: EncodedPairs, rows: Any) -> Tensor:
    groups = data.groups[rows]
    windows = source_windows(data.sources[groups], data.source_lens[groups], 4, N_SOURCE)
    log_probs = network.log_probs(
        torch.from_numpy(windows).long(),
        torch.from_numpy(data.targets[rows]).long(),
        torch.from_numpy(data.target_lens[rows]),
    )
    return -(torch.from_numpy(data.weights[rows]) * log_probs).sum()


@pytest.mark.parametrize("rows", [np.arange(70), np.array([3, 50, 7]), np.array([12])])
def test_loss_and_gradients_are_those_of_the_pairs(rows: Any) -> None:
    network, data = make_network(), make_data()
    expected = pair_by_pair(network, data, rows)
    gradients = torch.autograd.grad(expected, list(network.parameters()), allow_unused=True)
    found = cstm_loss(network, data, rows, torch.float64)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    others = torch.autograd.grad(found, list(network.parameters()), allow_unused=True)
    for one, other in zip(gradients, others, strict=True):
        if one is None or other is None:
            assert (other if one is None else one) is None
        else:
            torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-9)


def test_a_source_whose_targets_share_words_is_computed_once() -> None:
    groups, words = np.array([2, 2, 2, 5, 0]), np.array([7, 3, 7, 7, 0], np.int32)
    here, predicted = predicted_at(groups, words, np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert here.tolist() == [0, 2, 5]
    assert predicted.rows.tolist() == [0, 1, 1, 2]
    assert predicted.words.tolist() == [0, 3, 7, 7]
    assert predicted.weights.tolist() == [16.0, 2.0, 5.0, 8.0]
