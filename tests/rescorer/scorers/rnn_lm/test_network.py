"""The RNN language model against its equations in NumPy float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from moses_bridge.base.errors import ConfigError
from rescorer.layers.units import UnitName
from rescorer.scorers.rnn_lm.network import RnnLm, RnnLmConfig

D, R, F, N_WORDS = 11, 7, 5, 9
UNITS: tuple[UnitName, ...] = ("gated", "lstm")
Array = NDArray[np.float64]


def make_network(unit: UnitName, factor_width: int = F, n_words: int = N_WORDS) -> RnnLm:
    torch.manual_seed(2)
    network = RnnLm(RnnLmConfig(unit, D, R, factor_width), n_words)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return network


def transcribed(network: RnnLm, words: list[int]) -> float:
    """One sentence, one step at a time, from Cho et al. (2014) and Zaremba et al. (2014); </s> is 0."""
    w = {name: value.detach().double().numpy() for name, value in network.state_dict().items()}

    def gated(h: Array, c: Array, inputs: Array) -> tuple[Array, Array]:
        u = w["unit.recurrent_gates.weight"]
        r, z = expit(inputs[:D] + u[:D] @ h), expit(inputs[D : 2 * D] + u[D:] @ h)
        candidate = np.tanh(inputs[2 * D :] + w["unit.recurrent_candidate.weight"] @ (r * h))
        return z * h + (1 - z) * candidate, c

    def lstm(h: Array, c: Array, inputs: Array) -> tuple[Array, Array]:
        i, f, g, o = (inputs + w["unit.recurrent.weight"] @ h).reshape(4, -1)
        c = expit(f) * c + expit(i) * np.tanh(g)
        return expit(o) * np.tanh(c), c

    step = gated if network.config.unit == "gated" else lstm
    h = c = np.zeros(D)
    previous, total = len(w["embedding.weight"]) - 1, 0.0
    for word in [*words, 0]:
        x = w["embedding.weight"][previous]
        h, c = step(h, c, w["unit.input.weight"] @ x + w["unit.input.bias"])
        factors = w["factor.weight"] @ h if "factor.weight" in w else h
        total += log_softmax(w["output.weight"] @ factors + w["output.bias"])[word]
        previous = word
    return total


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("factor_width", [0, F])
def test_the_network_is_its_equations(unit: UnitName, factor_width: int) -> None:
    network = make_network(unit, factor_width)
    rng = np.random.default_rng(1)
    lens = rng.integers(0, 8, 30)
    ids = rng.integers(1, N_WORDS, (30, 9))
    ids[np.arange(9) >= lens[:, None]] = 0
    with torch.inference_mode():
        found = network.log_probs(torch.from_numpy(ids), torch.from_numpy(lens))
    expected = [transcribed(network, row[:n].tolist()) for row, n in zip(ids, lens, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("unit", UNITS)
def test_sentences_up_to_a_length_and_beginnings_of_longer_ones_have_probability_one(
    unit: UnitName,
) -> None:
    network = make_network(unit, n_words=4).double()

    def total(length: int) -> float:
        words = torch.tensor([*itertools.product(range(1, 4), repeat=length)]).long()
        ids = torch.cat([words.view(3**length, length), torch.zeros(3**length, 1).long()], 1)
        return network.log_probs(ids, torch.full((len(ids),), length)).exp().sum().item()

    finished = [total(length) for length in range(8)]
    assert 0.5 < sum(finished) < 1 and all(value > 0 for value in finished)
    with torch.inference_mode():
        first = network.log_probs(torch.arange(4)[:, None], torch.zeros(4).long()).exp()
    assert first.sum().item() == pytest.approx(1, abs=1e-9)


def test_initial_weights() -> None:
    network = RnnLm(RnnLmConfig("lstm", 64, 32, 16), 300)
    assert network.embedding.weight.std().item() == pytest.approx(0.1, rel=0.1)
    assert network.unit.input.bias.view(4, 64)[1].tolist() == [1.0] * 64
    for block in network.unit.recurrent.weight.detach().split(64):  # type: ignore[attr-defined]
        torch.testing.assert_close(block @ block.T, torch.eye(64), atol=1e-5, rtol=0)
    network.start_normalised()
    assert network.output.bias.double().exp().sum().item() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("name", ["hidden_width", "embedding_width"])
def test_a_width_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0; the smallest value is 1"):
        RnnLmConfig(**{name: 0})  # type: ignore[arg-type]


def test_a_word_outside_the_shortlist_is_refused() -> None:
    network = make_network("gated")
    with pytest.raises(IndexError):
        network.log_probs(torch.tensor([[N_WORDS, 0]]), torch.tensor([1]))
