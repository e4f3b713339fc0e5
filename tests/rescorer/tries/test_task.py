"""The loss over prefix trees against the sum over pairs, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescorer.layers.predicted import output_loss
from rescorer.tries.task import pairs_loss, predictions
from tests.rescorer.plain_networks import encode
from tests.rescorer.tries.conftest import N_TARGET, make_data, make_network, pair_by_pair


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
                encode(network, torch.from_numpy(source).long(), torch.from_numpy(lens))
            )
            state, zero = network.start(encoded), torch.zeros(1, dtype=torch.long)
            for word in [-1, *data.targets[row][: data.target_lens[row]].tolist()]:
                inputs = network.inputs(torch.tensor([word]), encoded, zero)
                state = network.step(network.carry(state), inputs, encoded)
                logits = network.output(network.factors(state, inputs, encoded))
                expected += data.weights[row] * torch.logsumexp(logits, 1).item() ** 2
        factors, predicted = predictions(network, data, rows)
        plain, penalised = (
            output_loss(network.output, factors, predicted, torch.float64, alpha)
            for alpha in (0.0, 0.1)
        )
    assert (penalised - plain).item() == pytest.approx(0.1 * expected)


def test_a_word_that_the_network_does_not_know_is_refused() -> None:
    network, data = make_network(), make_data()
    data.targets[data.target_lens > 0, 0] = N_TARGET
    with pytest.raises(IndexError):
        pairs_loss(network, data, np.arange(101), torch.float64)
