"""The CSTM against its equations in NumPy float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.zoo.cstm.network import Cstm, CstmConfig, source_windows

SIZES = CstmConfig(phrase_words=3, embedding_width=5, first_width=11, second_width=7)
N_SOURCE, N_TARGET = 6, 5


def new_network(sizes: CstmConfig = SIZES) -> Cstm:
    torch.manual_seed(1)
    network = Cstm(sizes, N_SOURCE, N_TARGET)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return network


def numpy_log_prob(network: Cstm, source: list[int], target: list[int]) -> float:
    """log p(target | source) from the equations: tanh layers, a softmax a place, </s> is the word 0."""
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    n_places = network.config.phrase_words
    places = source + [N_SOURCE] * (n_places - len(source))
    x = np.concatenate([p["embedding.weight"][word] for word in places])
    hidden = np.tanh(p["first.weight"] @ x + p["first.bias"])
    if "second.weight" in p:
        hidden = np.tanh(p["second.weight"] @ hidden + p["second.bias"])
    total = 0.0
    for place, word in enumerate([*target, 0][:n_places]):
        logits = p[f"outputs.{place}.weight"] @ hidden + p[f"outputs.{place}.bias"]
        total += logits[word] - np.log(np.exp(logits).sum())
    return float(total)


def asked(
    sources: list[list[int]], targets: list[list[int]]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    windows = [source + [N_SOURCE] * (3 - len(source)) for source in sources]
    width = max(map(len, targets)) + 1
    ids = [target + [0] * (width - len(target)) for target in targets]
    return torch.tensor(windows), torch.tensor(ids), torch.tensor([len(t) for t in targets])


@pytest.mark.parametrize("second_width", [7, 0])
@torch.inference_mode()
def test_the_network_is_its_equations(second_width: int) -> None:
    network = new_network(
        CstmConfig(phrase_words=3, embedding_width=5, first_width=11, second_width=second_width)
    )
    sources = [[2], [3, 2], [5, 1, 2], [], [4, 4, 4]]
    targets = [[2, 3, 4], [], [1], [3, 3], [4, 2, 1]]
    expected = [numpy_log_prob(network, *pair) for pair in zip(sources, targets, strict=True)]
    found = network.log_probs(*asked(sources, targets))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@torch.inference_mode()
def test_all_targets_together_have_probability_one() -> None:
    """Those of no word to those of as many words as there are places; none of them contains </s>."""
    targets = [
        list(target)
        for n_words in range(4)
        for target in itertools.product(range(1, N_TARGET), repeat=n_words)
    ]
    found = new_network().log_probs(*asked([[3, 2]] * len(targets), targets))
    assert len(targets) == 1 + 4 + 16 + 64
    assert found.double().exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_windows_have_empty_places_behind_the_words() -> None:
    ids: NDArray[np.int32] = np.array([[4, 2, 0], [3, 0, 0], [0, 0, 0]], np.int32)
    found = source_windows(ids, np.array([2, 1, 0]), 4, 9)
    assert found.tolist() == [[4, 2, 9, 9], [3, 9, 9, 9], [9, 9, 9, 9]]
    full = source_windows(np.array([[4, 2, 0]], np.int32), np.array([2]), 2, 9)
    assert full.tolist() == [[4, 2]]


def test_a_phrase_that_is_longer_than_the_window_has_none() -> None:
    with pytest.raises(ValueError, match="3 words in 2 places"):
        source_windows(np.zeros((1, 4), np.int32), np.array([3]), 2, 9)


def test_initial_weights_are_drawn_as_told() -> None:
    network = new_network()
    network.initialise(0.1)
    weights = network.embedding.weight, *(layer.weight for layer in network.output_layers)
    assert all(0.05 < weight.abs().max() <= 0.1 for weight in weights)
    network.initialise(None)
    assert network.embedding.weight.abs().max() > 0.1
    assert all((layer.bias == 0).all() for layer in network.output_layers)


@pytest.mark.parametrize("key", ["phrase_words", "embedding_width", "first_width"])
def test_sizes_of_nothing_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}"):
        CstmConfig(**{key: 0})
