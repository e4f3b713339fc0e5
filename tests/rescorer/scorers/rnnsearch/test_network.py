from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Precision
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.rnnsearch import AttentiveTables, RnnSearch, RnnSearchConfig, rnnsearch_scorer
from rescorer.tries.generation import Attentive

Array = NDArray[np.float64]
D, E, A, M = 9, 6, 7, 5
SOURCE, TARGET = (Vocabulary([b"%c%d" % (side, i) for i in range(11)]) for side in b"st")
CONTEXTS = ("attention", "last-state")


def make_network(context: str, deviation: float = 0.5) -> RnnSearch:
    torch.manual_seed(5)
    config = RnnSearchConfig(context, D, E, A, M)
    network = RnnSearch(config, len(SOURCE), len(TARGET), dropout=0.5).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=deviation)
    return network


def make_pairs(n: int, seed: int, longest: int = 9) -> Batch:
    rng = np.random.default_rng(seed)

    def phrase(side: bytes) -> bytes:
        return b" ".join(
            b"%s%d" % (side, i) for i in rng.integers(0, 13, rng.integers(0, longest + 1))
        )

    sources = [phrase(b"s") for _ in range(max(1, n // 4))]
    return Batch(
        [sources[i] for i in rng.integers(0, len(sources), n)], [phrase(b"t") for _ in range(n)]
    )


def scores(network: RnnSearch, batch: Batch, precision: Precision = "float32") -> Array:
    model = TrainedModel("rnnsearch", network, Shortlists(SOURCE, TARGET), {})
    return rnnsearch_scorer(model, Compute(precision, "cpu")).values(batch)


def sigma(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


class Equations:
    """Appendix A of the paper, one symbol a matrix, one pair at a time, float64.

    z takes the new state there, so what belongs to it is negated.
    """

    def __init__(self, network: RnnSearch) -> None:
        self.w = {name: value.double().numpy() for name, value in network.state_dict().items()}
        self.has_attention = network.config.context == "attention"

    def unit(self, name: str, x: Array, h: Array, extra: Array) -> Array:
        w = self.w
        (W_r, W_z, W), (b_r, b_z, b) = (
            np.split(w[f"{name}.input.{kind}"], 3) for kind in ("weight", "bias")
        )
        U_r, U_z = np.split(w[f"{name}.recurrent_gates.weight"], 2)
        C_r, C_z, C = np.split(extra, 3)
        r = sigma(W_r @ x + b_r + U_r @ h + C_r)
        z = sigma(-W_z @ x - b_z - U_z @ h - C_z)
        candidate = np.tanh(W @ x + b + w[f"{name}.recurrent_candidate.weight"] @ (r * h) + C)
        return np.asarray((1 - z) * h + z * candidate)

    def readings(self, name: str, words: list[int]) -> list[Array]:
        h, states = np.zeros(D), []
        for word in words:
            h = self.unit(name, self.w["source_embedding.weight"][word], h, np.zeros(3 * D))
            states.append(h)
        return states

    def context(self, s: Array, annotations: list[Array], last: Array) -> Array:
        if not self.has_attention:
            return last
        w = self.w
        energies = [
            w["context.energy"]
            @ np.tanh(
                w["context.query.weight"] @ s + w["context.key.weight"] @ h + w["context.key.bias"]
            )
            for h in annotations
        ]
        weights = np.exp(energies) / np.exp(energies).sum()
        return np.asarray(sum(weight * h for weight, h in zip(weights, annotations, strict=True)))

    def log_prob(self, source: list[int], target: list[int]) -> float:
        w = self.w
        words = [*source, Vocabulary.end_id]
        right = self.readings("encoder.to_right", words)
        left = self.readings("encoder.to_left", words[::-1])[::-1]
        annotations = [np.concatenate(pair) for pair in zip(right, left, strict=True)]
        s = np.tanh(w["decoder_start_layer.weight"] @ left[0] + w["decoder_start_layer.bias"])
        y, total = np.zeros(E), 0.0
        for word in [*target, Vocabulary.end_id]:
            c = self.context(s, annotations, right[-1])
            t = w["hidden_to_readout.weight"] @ s + w["hidden_to_readout.bias"]
            t += w["word_to_readout.weight"] @ y + w["context_to_readout.weight"] @ c
            maxout = np.array([max(t[2 * i], t[2 * i + 1]) for i in range(M)])
            logits = w["output.weight"] @ maxout + w["output.bias"]
            total += logits[word] - np.log(np.exp(logits).sum())
            s = self.unit("decoder", y, s, w["context_to_unit.weight"] @ c)
            y = w["target_embedding.weight"][word]
        return float(total)


@pytest.mark.parametrize("context", CONTEXTS)
def test_equals_the_equations(context: str) -> None:
    network, batch = make_network(context), make_pairs(40, seed=1)
    equations = Equations(network)
    expected = [
        equations.log_prob(
            SOURCE.encode_words(source.split()).tolist(),
            TARGET.encode_words(target.split()).tolist(),
        )
        for source, target in zip(batch.sources, batch.targets, strict=True)
    ]
    np.testing.assert_allclose(scores(network, batch), expected, atol=1e-5, rtol=5e-7)


@pytest.mark.parametrize("context", CONTEXTS)
def test_order_and_neighbours_change_nothing(context: str) -> None:
    network, batch = make_network(context), make_pairs(60, seed=2)
    together = scores(network, batch)
    alone = [
        scores(network, Batch([source], [target]))[0]
        for source, target in zip(batch.sources, batch.targets, strict=True)
    ]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    order = np.random.default_rng(3).permutation(60)
    shuffled = Batch([batch.sources[i] for i in order], [batch.targets[i] for i in order])
    np.testing.assert_allclose(scores(network, shuffled), together[order], atol=1e-5)


def test_the_source_matters_to_both_contexts() -> None:
    for context in CONTEXTS:
        found = scores(make_network(context), Batch([b"s1 s2", b"s2 s1", b""], [b"t1 t2"] * 3))
        assert len(set(found.round(3))) == 3


def test_probabilities_of_all_next_words_add_up_to_one() -> None:
    """What goes on behind t0 has the probability of t0 itself."""
    network = make_network("attention")
    ends = [b"t0", *(b"t0 " + word for word in TARGET.words[1:])]
    with torch.inference_mode():
        values = scores(network, Batch([b"s3 s4"] * len(ends), ends))
        source = network.read(*SOURCE.encode_phrases([b"s3 s4"]))
        none, rows = torch.tensor([-1]), torch.tensor([0])
        state, first = network.start(source), network.inputs(none, source, rows)
        state = network.step(network.carry(state), first, source)
        first_word = torch.log_softmax(network.output(network.factors(state, first, source)), 1)
        word = torch.tensor([TARGET.words.index(b"t0")])
        second = network.inputs(word, source, rows)
        state = network.step(network.carry(state), second, source)
        logits = network.output(network.factors(state, second, source))
        expected = torch.log_softmax(logits, 1)[0, 0] + first_word[0, word[0]]
    assert values[0] == pytest.approx(float(expected), abs=1e-5)


def test_attention_tells_where_a_step_looks() -> None:
    """Of two sources of other lengths, before their first words: the weights of the equations."""
    network = make_network("attention")
    tables = AttentiveTables(network, torch.float32)
    sources = [b"s1 s2 s3", b"s4"]
    with torch.inference_mode():
        source, rows = tables.read(*SOURCE.encode_phrases(sources)), torch.tensor([0, 1])
        carried = tables.carry(tables.start(source))
        inputs = tables.inputs(torch.tensor([-1, -1]), source, rows)
        found = tables.attention(carried, inputs, source).numpy()
    equations, w = Equations(network), network.state_dict()
    for weights, text in zip(found, sources, strict=True):
        words = [*SOURCE.encode_words(text.split()).tolist(), 0]
        right = equations.readings("encoder.to_right", words)
        left = equations.readings("encoder.to_left", words[::-1])[::-1]
        annotations = [np.concatenate(pair) for pair in zip(right, left, strict=True)]
        start = w["decoder_start_layer.weight"].double().numpy() @ left[0]
        context = equations.context(
            np.tanh(start + w["decoder_start_layer.bias"].double().numpy()), annotations, right[-1]
        )
        np.testing.assert_allclose(weights[: len(words)] @ annotations, context, atol=1e-5)
        assert weights.sum() == pytest.approx(1, abs=1e-6)


def test_a_network_without_attention_tells_nothing() -> None:
    model = TrainedModel("rnnsearch", make_network("last-state"), Shortlists(SOURCE, TARGET), {})
    assert not isinstance(rnnsearch_scorer(model, Compute()).network, Attentive)
    model = TrainedModel("rnnsearch", make_network("attention"), Shortlists(SOURCE, TARGET), {})
    assert isinstance(rnnsearch_scorer(model, Compute()).network, Attentive)


def test_long_sentences_and_lists_take_bounded_memory() -> None:
    """1,000 hypotheses of 200 words for a source of 200: no (state, place) pair has numbers of its own."""
    rng = np.random.default_rng(4)
    words = [b"t%d" % i for i in rng.integers(0, 11, 200)]
    targets = [b" ".join([*words[:k], b"t1"]) for k in rng.integers(150, 200, 1000)]
    source = b" ".join(b"s%d" % i for i in rng.integers(0, 11, 200))
    found = scores(make_network("attention", 0.2), Batch([source] * 1000, targets))
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(
        scores(make_network("attention", 0.2), Batch([source], targets[:1]))[0], abs=1e-4
    )


def test_the_papers_initial_weights() -> None:
    torch.manual_seed(1)
    network = RnnSearch(RnnSearchConfig("attention", 80, 60, 70, 50), 50, 60, dropout=0.0)
    w = network.state_dict()
    assert float(w["context.energy"].abs().max()) == 0
    assert float(w["context.query.weight"].std()) == pytest.approx(0.001, rel=0.1)
    assert float(w["context.key.weight"].std()) == pytest.approx(0.001, rel=0.1)
    assert float(w["output.weight"].std()) == pytest.approx(0.01, rel=0.1)
    recurrent = w["encoder.to_left.recurrent_candidate.weight"]
    torch.testing.assert_close(recurrent @ recurrent.T, torch.eye(80), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("field", "value"), [("hidden_width", 0), ("attention_width", -1)])
def test_impossible_sizes_are_refused(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=field):
        RnnSearchConfig(**{field: value})
