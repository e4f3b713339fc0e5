"""The CSLM against its equations in NumPy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError
from rescorer.scorers.cslm.network import Cslm, CslmConfig

SIZES = CslmConfig(context_words=3, embedding_width=5, first_width=11, second_width=7)


def test_the_network_is_its_equations() -> None:
    torch.manual_seed(1)
    network = Cslm(SIZES, 6)
    torch.nn.init.normal_(network.output.bias)
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    rng = np.random.default_rng(2)
    contexts, words = rng.integers(0, 7, (40, 3)), rng.integers(0, 6, 40)
    expected = []
    for context, word in zip(contexts, words, strict=True):
        x = np.concatenate([p["embedding.weight"][i] for i in context])
        first = np.maximum(0, p["first.weight"] @ x + p["first.bias"])
        second = np.maximum(0, p["second.weight"] @ first + p["second.bias"])
        logits = p["output.weight"] @ second + p["output.bias"]
        expected.append(logits[word] - np.log(np.exp(logits).sum()))
    with torch.inference_mode():
        found = network.log_probs(torch.from_numpy(contexts), torch.from_numpy(words))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_all_words_together_have_probability_one() -> None:
    network = Cslm(SIZES, 6)
    with torch.inference_mode():
        found = network.log_probs(torch.tensor([[6, 6, 2]]).expand(6, -1), torch.arange(6))
    assert found.double().exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_the_start_of_a_sentence_is_a_word_of_the_input_alone() -> None:
    network = Cslm(SIZES, 6)
    assert network.start_id == 6
    assert network.embedding.weight.shape == (7, 5) and network.output.weight.shape == (6, 7)


def test_initial_weights() -> None:
    """Output in (-0.01, 0.01); hidden ones uniform with variance 2 / fan in (He et al. 2015)."""
    network = Cslm(CslmConfig(4, 32, 200, 100), 400)
    assert network.output.weight.abs().max() <= 0.01 and network.embedding.weight.abs().max() <= 0.1
    for layer in (network.first, network.second):
        deviation = (2 / layer.in_features) ** 0.5
        assert layer.weight.std().item() == pytest.approx(deviation, rel=0.05)
        assert not layer.bias.any()


@pytest.mark.parametrize("name", ["context_words", "embedding_width", "first_width"])
def test_a_size_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0; the smallest value is 1"):
        CslmConfig(**{name: 0})


def test_a_word_that_is_not_there_is_refused() -> None:
    with pytest.raises(IndexError):
        Cslm(SIZES, 6).hidden(torch.tensor([[7, 0, 0]]))
