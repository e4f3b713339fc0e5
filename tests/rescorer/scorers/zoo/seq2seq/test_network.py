from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.zoo.seq2seq import Seq2Seq, Seq2SeqConfig, reversed_words, seq2seq_scorer

Array = NDArray[np.float64]
D, E, L = 7, 5, 3
SOURCE, TARGET = (Vocabulary([b"%c%d" % (side, i) for i in range(9)]) for side in b"st")


def make_network(order: str) -> Seq2Seq:
    torch.manual_seed(3)
    network = Seq2Seq(Seq2SeqConfig(L, D, E, order), len(SOURCE), len(TARGET), dropout=0.5).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return network


def scores(network: Seq2Seq, batch: Batch, precision: str = "float32") -> Array:
    model = TrainedModel("seq2seq", network, Shortlists(SOURCE, TARGET), {})
    return seq2seq_scorer(model, Compute(precision)).values(batch)


def sigma(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


class Equations:
    """f, i, o = sigma, g = tanh, c' = f c + i g, h' = o tanh(c'), layer by layer, float64."""

    def __init__(self, network: Seq2Seq) -> None:
        self.w = {name: value.double().numpy() for name, value in network.state_dict().items()}
        self.order = network.config.source_order

    def step(self, side: str, x: Array, states: list[tuple[Array, Array]]) -> None:
        for number, (h, c) in enumerate(states):
            name = f"{side}.layers.{number}"
            gates = self.w[f"{name}.input.weight"] @ x + self.w[f"{name}.input.bias"]
            i, f, g, o = np.split(gates + self.w[f"{name}.recurrent.weight"] @ h, 4)
            c = sigma(f) * c + sigma(i) * np.tanh(g)
            x = sigma(o) * np.tanh(c)
            states[number] = (x, c)

    def log_prob(self, source: list[int], target: list[int]) -> float:
        states = [(np.zeros(D), np.zeros(D)) for _ in range(L)]
        words = source[::-1] if self.order == "reversed" else source
        for word in [*words, Vocabulary.end_id]:
            self.step("encoder", self.w["source_embedding.weight"][word], states)
        x, total = np.zeros(E), 0.0
        for word in [*target, Vocabulary.end_id]:
            self.step("decoder", x, states)
            logits = self.w["output.weight"] @ states[-1][0] + self.w["output.bias"]
            total += logits[word] - np.log(np.exp(logits).sum())
            x = self.w["target_embedding.weight"][word]
        return float(total)


def make_pairs(n: int) -> Batch:
    rng = np.random.default_rng(1)
    sources, targets = (
        [
            b" ".join(b"%c%d" % (side, i) for i in rng.integers(0, 11, rng.integers(0, 7)))
            for _ in range(n)
        ]
        for side in b"st"
    )
    return Batch(sources, targets)


@pytest.mark.parametrize("order", ["reversed", "forward"])
def test_equals_the_equations(order: str) -> None:
    network, batch = make_network(order), make_pairs(40)
    equations = Equations(network)
    expected = [
        equations.log_prob(
            SOURCE.encode_words(source.split()).tolist(),
            TARGET.encode_words(target.split()).tolist(),
        )
        for source, target in zip(batch.sources, batch.targets, strict=True)
    ]
    np.testing.assert_allclose(scores(network, batch), expected, atol=1e-5, rtol=5e-7)


def test_neighbours_change_nothing() -> None:
    network, batch = make_network("reversed"), make_pairs(30)
    alone = [
        scores(network, Batch([source], [target]))[0]
        for source, target in zip(batch.sources, batch.targets, strict=True)
    ]
    np.testing.assert_allclose(scores(network, batch), alone, atol=1e-5)


def test_words_are_reversed_and_the_end_stays() -> None:
    ids = np.array([[4, 5, 6, 0], [7, 0, 0, 0], [0, 0, 0, 0]], np.int32)
    found = reversed_words(ids, np.array([3, 1, 0]))
    assert found.tolist() == [[6, 5, 4, 0], [7, 0, 0, 0], [0, 0, 0, 0]]


def test_no_layers_are_refused() -> None:
    with pytest.raises(ConfigError, match="n_layers"):
        Seq2SeqConfig(n_layers=0)
