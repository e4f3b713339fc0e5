"""The loss over prefix trees against the sum over pairs, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.training.encoded_pairs import EncodedPairs
from rescorer.tries.loss import pairs_loss

N_SOURCE, N_TARGET = 11, 13
MODEL = EncDecConfig(hidden_width=7, embedding_width=5, maxout_width=3)


def make_data(n_sources: int = 17, n_pairs: int = 101) -> EncodedPairs:
    rng = np.random.default_rng(8)

    def phrases(n: int, n_words: int, max_len: int) -> tuple[Any, Any]:
        lens = rng.integers(0, max_len + 1, n)
        ids = rng.integers(1, n_words, (n, max_len + 1)).astype(np.int32)
        ids[np.arange(max_len + 1) >= lens[:, None]] = 0
        return ids, lens

    groups = np.sort(rng.integers(0, n_sources, n_pairs))
    weights = rng.uniform(0.5, 3.0, n_pairs)
    sources, targets = phrases(n_sources, N_SOURCE, 4), phrases(n_pairs, 5, 3)
    return EncodedPairs(*sources, *targets, groups, weights)


def make_network() -> EncoderDecoder:
    torch.manual_seed(3)
    network = EncoderDecoder(MODEL, N_SOURCE, N_TARGET).double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network


def pair_by_pair(network: EncoderDecoder, data: EncodedPairs, rows: Any) -> Tensor:
    groups = data.groups[rows]
    log_probs = network.log_probs(
        torch.from_numpy(data.sources[groups]).long(),
        torch.from_numpy(data.source_lens[groups]),
        torch.from_numpy(data.targets[rows]).long(),
        torch.from_numpy(data.target_lens[rows]),
    )
    return -(torch.from_numpy(data.weights[rows]) * log_probs).sum()


@pytest.mark.parametrize("n_rows", [1, 20, 101])
def test_trees_give_the_likelihood_and_gradients_of_the_pairs(n_rows: int) -> None:
    network, data = make_network(), make_data()
    rows = np.random.default_rng(n_rows).permutation(len(data.groups))[:n_rows]
    found = pairs_loss(network, data, rows, torch.float64)
    expected = pair_by_pair(network, data, rows)
    torch.testing.assert_close(found, expected)
    parameters = dict(network.named_parameters())
    gradients = torch.autograd.grad(found, list(parameters.values()))
    others = torch.autograd.grad(expected, list(parameters.values()))
    for name, one, other in zip(parameters, gradients, others, strict=True):
        torch.testing.assert_close(one, other, msg=name)


def test_the_penalty_counts_each_word_of_each_pair_once() -> None:
    """Weighted sum of log^2 Z, which the network's own steps give, pair by pair."""
    network, data = make_network(), make_data(n_pairs=30)
    rows = np.arange(30)
    expected = 0.0
    with torch.no_grad():
        for row in rows:
            source = data.sources[data.groups[row]][None]
            lens = data.source_lens[data.groups[row]][None]
            encoded = network.decoder_start(
                network.encode(torch.from_numpy(source).long(), torch.from_numpy(lens))
            )
            state, zero = network.start(encoded), torch.zeros(1, dtype=torch.long)
            for word in [-1, *data.targets[row][: data.target_lens[row]].tolist()]:
                inputs = network.inputs(torch.tensor([word]), encoded, zero)
                state = network.step(network.carry(state), inputs, encoded)
                logits = network.output(network.factors(state, inputs, encoded))
                expected += data.weights[row] * torch.logsumexp(logits, 1).item() ** 2
        plain = pairs_loss(network, data, rows, torch.float64)
        penalised = pairs_loss(network, data, rows, torch.float64, alpha=0.1)
    assert (penalised - plain).item() == pytest.approx(0.1 * expected)


def test_a_word_that_the_network_does_not_know_is_refused() -> None:
    network, data = make_network(), make_data()
    data.targets[data.target_lens > 0, 0] = N_TARGET
    with pytest.raises(IndexError):
        pairs_loss(network, data, np.arange(101), torch.float64)
