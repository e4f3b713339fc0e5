from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.vocabulary import Vocabulary
from rescorer.layers.output_layer import start_normalised
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from tests.rescorer.plain_networks import log_probs

D, R, M, N_SOURCE, N_TARGET = 13, 7, 5, 19, 23
Array = NDArray[np.float64]


def make_network(deviation: float = 0.4, n_target: int = N_TARGET) -> EncoderDecoder:
    torch.manual_seed(11)
    network = EncoderDecoder(EncDecConfig(D, R, M), N_SOURCE, n_target)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=deviation)
    return network


def make_ids(n: int, n_words: int, max_len: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    lens = rng.integers(0, max_len + 1, n)
    ids = rng.integers(1, n_words, (n, max_len + 1))
    ids[np.arange(max_len + 1) >= lens[:, None]] = 0
    return torch.from_numpy(ids), torch.from_numpy(lens)


def sigma(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


class Equations:
    """Section 1 of the model's description, one symbol a matrix, one pair at a time, float64."""

    def __init__(self, network: EncoderDecoder) -> None:
        w = {name: value.double().numpy() for name, value in network.state_dict().items()}
        d = network.config.hidden_width
        self.e_x, self.e_y = w["source_embedding.weight"], w["target_embedding.weight"]
        self.W_r, self.W_z, self.W = w["encoder.input.weight"].reshape(3, d, -1)
        self.b_r, self.b_z, self.b = w["encoder.input.bias"].reshape(3, d)
        self.U_r, self.U_z = w["encoder.recurrent_gates.weight"].reshape(2, d, d)
        self.U = w["encoder.recurrent_candidate.weight"]
        self.V, self.b_V = w["summary.weight"], w["summary.bias"]
        self.Vd, self.b_Vd = w["decoder_start_layer.weight"], w["decoder_start_layer.bias"]
        self.Wd_r, self.Wd_z, self.Wd = w["decoder.input.weight"].reshape(3, d, -1)
        self.bd_r, self.bd_z, self.bd = w["decoder.input.bias"].reshape(3, d)
        self.Ud_r, self.Ud_z = w["decoder.recurrent_gates.weight"].reshape(2, d, d)
        self.Ud = w["decoder.recurrent_candidate.weight"]
        self.C_r, self.C_z, self.C = w["context_to_unit.weight"].reshape(3, d, d)
        self.O_h, self.b_O = w["hidden_to_readout.weight"], w["hidden_to_readout.bias"]
        self.O_y, self.O_c = w["word_to_readout.weight"], w["context_to_readout.weight"]
        self.G_l, self.G_r, self.b_G = (
            w["readout_factor.weight"],
            w["output.weight"],
            w["output.bias"],
        )

    def summary(self, source: list[int]) -> Array:
        h = np.zeros(len(self.U))
        for x in [*source, Vocabulary.end_id]:
            e = self.e_x[x]
            r = sigma(self.W_r @ e + self.b_r + self.U_r @ h)
            z = sigma(self.W_z @ e + self.b_z + self.U_z @ h)
            candidate = np.tanh(self.W @ e + self.b + self.U @ (r * h))
            h = z * h + (1 - z) * candidate
        return np.asarray(np.tanh(self.V @ h + self.b_V))

    def log_prob(self, source: list[int], target: list[int]) -> float:
        c = self.summary(source)
        h = np.tanh(self.Vd @ c + self.b_Vd)
        e = np.zeros(self.e_y.shape[1])
        total = 0.0
        for y in [*target, Vocabulary.end_id]:
            r = sigma(self.Wd_r @ e + self.bd_r + self.Ud_r @ h + self.C_r @ c)
            z = sigma(self.Wd_z @ e + self.bd_z + self.Ud_z @ h + self.C_z @ c)
            candidate = np.tanh(self.Wd @ e + self.bd + self.Ud @ (r * h) + self.C @ c)
            h = z * h + (1 - z) * candidate
            s = self.O_h @ h + self.b_O + self.O_y @ e + self.O_c @ c
            maxout = np.array([max(s[2 * i], s[2 * i + 1]) for i in range(len(s) // 2)])
            logits = self.G_r @ (self.G_l @ maxout) + self.b_G
            total += logits[y] - np.log(np.exp(logits).sum())
            e = self.e_y[y]
        return float(total)


def test_equals_the_equations() -> None:
    network = make_network()
    source, source_lens = make_ids(40, N_SOURCE, 5, seed=1)
    target, target_lens = make_ids(40, N_TARGET, 6, seed=2)
    found = log_probs(network, source, source_lens, target, target_lens).detach().numpy()
    equations = Equations(network)
    expected = [
        equations.log_prob(x[:n].tolist(), y[:m].tolist())
        for x, n, y, m in zip(source, source_lens, target, target_lens, strict=True)
    ]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=2e-7)


def lstm_log_prob(network: EncoderDecoder, source: list[int], target: list[int]) -> float:
    """The same readout over LSTMs (Zaremba et al. 2014, equations 1 to 6), float64, one pair at a time."""
    w = {name: value.double().numpy() for name, value in network.state_dict().items()}

    def step(side: str, h: Array, c: Array, inputs: Array) -> tuple[Array, Array]:
        i, f, g, o = (inputs + w[f"{side}.recurrent.weight"] @ h).reshape(4, -1)
        c = sigma(f) * c + sigma(i) * np.tanh(g)
        return sigma(o) * np.tanh(c), c

    h = c = np.zeros(D)
    for x in [*source, Vocabulary.end_id]:
        e = w["source_embedding.weight"][x]
        h, c = step("encoder", h, c, w["encoder.input.weight"] @ e + w["encoder.input.bias"])
    context = np.tanh(w["summary.weight"] @ h + w["summary.bias"])
    start = np.tanh(w["decoder_start_layer.weight"] @ context + w["decoder_start_layer.bias"])
    (h, c), e, total = start.reshape(2, D), np.zeros(R), 0.0
    for y in [*target, Vocabulary.end_id]:
        inputs = w["decoder.input.weight"] @ e + w["decoder.input.bias"]
        h, c = step("decoder", h, c, inputs + w["context_to_unit.weight"] @ context)
        s = w["hidden_to_readout.weight"] @ h + w["hidden_to_readout.bias"]
        s = s + w["word_to_readout.weight"] @ e + w["context_to_readout.weight"] @ context
        factor = w["readout_factor.weight"] @ s.reshape(-1, 2).max(axis=1)
        logits = w["output.weight"] @ factor + w["output.bias"]
        total += logits[y] - np.log(np.exp(logits).sum())
        e = w["target_embedding.weight"][y]
    return total


def test_with_lstms_equals_the_equations() -> None:
    torch.manual_seed(12)
    network = EncoderDecoder(EncDecConfig(D, R, M, "lstm"), N_SOURCE, N_TARGET)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    source, source_lens = make_ids(30, N_SOURCE, 5, seed=1)
    target, target_lens = make_ids(30, N_TARGET, 6, seed=2)
    found = log_probs(network, source, source_lens, target, target_lens).detach().numpy()
    expected = [
        lstm_log_prob(network, x[:n].tolist(), y[:m].tolist())
        for x, n, y, m in zip(source, source_lens, target, target_lens, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=2e-7)


def test_padding_changes_nothing() -> None:
    network = make_network().double()
    source, source_lens = make_ids(9, N_SOURCE, 4, seed=3)
    target, target_lens = make_ids(9, N_TARGET, 3, seed=4)
    plain = log_probs(network, source, source_lens, target, target_lens)
    more = torch.full((9, 3), 5)
    padded = log_probs(
        network,
        torch.cat([source, more], 1),
        source_lens,
        torch.cat([target, more], 1),
        target_lens,
    )
    torch.testing.assert_close(plain, padded)


def test_targets_up_to_a_length_and_longer_ones_have_probability_one() -> None:
    """All targets of less than n words, and all prefixes of n words, exclude each other."""
    n_words, n = 5, 3
    network = make_network(n_target=n_words).double()
    source, source_len = torch.tensor([[4, 9, 0]]), torch.tensor([2])

    def total(length: int, with_end: bool) -> float:
        words = torch.tensor([*itertools.product(range(1, n_words), repeat=length)]).long()
        ends = torch.zeros(len(words), 1, dtype=torch.long)
        ids = torch.cat([words, ends], 1) if with_end else words
        lens = torch.full((len(ids),), ids.shape[1] - 1)
        same = source.expand(len(ids), -1), source_len.expand(len(ids))
        return log_probs(network, *same, ids, lens).exp().sum().item()

    finished = sum(total(length, with_end=True) for length in range(n))
    assert finished + total(n, with_end=False) == pytest.approx(1, abs=1e-9)


def test_size_at_the_widths_of_the_paper() -> None:
    """17.27M parameters as in the authors' code, which has no V, and V with its bias."""
    with torch.device("meta"):
        network = EncoderDecoder(EncDecConfig(1000, 100, 500), 15_001, 15_001)
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    assert n_parameters - 1000 * 1001 == pytest.approx(17.27e6, abs=5e3)


def test_initial_weights_of_the_paper() -> None:
    network = EncoderDecoder(EncDecConfig(64, 32, 32), 200, 300)
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif "recurrent" in name:
            for block in parameter.detach().split(64):
                torch.testing.assert_close(block @ block.T, torch.eye(64), atol=1e-5, rtol=0)
        else:
            assert parameter.detach().std().item() == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize("word", [N_SOURCE, -7])
def test_a_word_outside_the_shortlist_is_refused(word: int) -> None:
    network = make_network()
    with pytest.raises(IndexError):
        network.encoder.inputs(network.source_embedding(torch.tensor([word])))


def test_a_denominator_of_one_at_the_start() -> None:
    """exp of the bias summed over all words is 1."""
    network = EncoderDecoder(EncDecConfig(D, R, M), N_SOURCE, N_TARGET)
    start_normalised(network.output)
    assert network.output.bias.double().exp().sum().item() == pytest.approx(1, rel=1e-6)


def test_weights_scaled_by_the_fan_in() -> None:
    """Glorot & Bengio (2010): variance 2 / (fan in + fan out); embeddings and output 0.1."""
    network = EncoderDecoder(EncDecConfig(64, 32, 32), 200, 300)
    network.initialise(None)
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif "embedding" in name or name.startswith("output"):
            assert parameter.detach().std().item() == pytest.approx(0.1, rel=0.1)
        elif "recurrent" not in name:
            deviation = (2 / sum(parameter.shape)) ** 0.5
            assert parameter.detach().std().item() == pytest.approx(deviation, rel=0.1)


def test_an_lstm_keeps_its_cells_at_the_start() -> None:
    network = EncoderDecoder(EncDecConfig(D, R, M, "lstm"), N_SOURCE, N_TARGET)
    for unit in (network.encoder, network.decoder):
        assert unit.input.bias.view(4, D).tolist() == [[0.0] * D, [1.0] * D, [0.0] * D, [0.0] * D]


@pytest.mark.parametrize("name", ["hidden_width", "embedding_width", "maxout_width"])
def test_a_width_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0; the smallest value is 1"):
        EncDecConfig(**{name: 0})
