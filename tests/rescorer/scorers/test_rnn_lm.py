"""The RNN language model against its equations in NumPy float64, its training, and its scorer."""

from __future__ import annotations

import copy
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute, Precision
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.output_layer import start_normalised
from rescorer.layers.units import UnitName
from rescorer.scorers.rnn_lm import (
    RnnLm,
    RnnLmConfig,
    RnnLmTables,
    RnnLmTrainingConfig,
    prepare,
    rnn_lm_scorer,
)
from tests.rescorer.plain_networks import log_probs

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
        found = log_probs(network, torch.from_numpy(ids), torch.from_numpy(lens))
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
        return log_probs(network, ids, torch.full((len(ids),), length)).exp().sum().item()

    finished = [total(length) for length in range(8)]
    assert 0.5 < sum(finished) < 1 and all(value > 0 for value in finished)
    with torch.inference_mode():
        first = log_probs(network, torch.arange(4)[:, None], torch.zeros(4).long()).exp()
    assert first.sum().item() == pytest.approx(1, abs=1e-9)


def test_initial_weights() -> None:
    network = RnnLm(RnnLmConfig("lstm", 64, 32, 16), 300)
    assert network.embedding.weight.std().item() == pytest.approx(0.1, rel=0.1)
    assert network.unit.input.bias.view(4, 64)[1].tolist() == [1.0] * 64
    for block in network.unit.recurrent.weight.detach().split(64):  # type: ignore[attr-defined]
        torch.testing.assert_close(block @ block.T, torch.eye(64), atol=1e-5, rtol=0)
    start_normalised(network.output)
    assert network.output.bias.double().exp().sum().item() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("name", ["hidden_width", "embedding_width"])
def test_a_width_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0; the smallest value is 1"):
        RnnLmConfig(**{name: 0})  # type: ignore[arg-type]


def test_a_word_outside_the_shortlist_is_refused() -> None:
    network = make_network("gated")
    with pytest.raises(IndexError):
        log_probs(network, torch.tensor([[N_WORDS, 0]]), torch.tensor([1]))


SIZES = RnnLmConfig("lstm", 8, 4, 4)


def write(path: Path, n: int = 30) -> Data:
    path.write_bytes(b"".join(b"a b w%d\n\n" % i for i in range(n)))
    return Data(path)


def test_the_text_is_read_and_the_network_made_for_its_words(tmp_path: Path) -> None:
    config = RnnLmTrainingConfig(model=SIZES, shortlist=20, n_held_out=2, self_normalisation=0.1)
    prepared = prepare(write(tmp_path / "text"), config, 1)
    assert prepared.shortlists.source is None and len(prepared.shortlists.target) == 22
    assert prepared.network.output.out_features == 22  # type: ignore[union-attr]
    bias = prepared.network.output.bias  # type: ignore[union-attr]
    assert bias.tolist() == pytest.approx([-math.log(22)] * 22)  # type: ignore[operator]
    assert prepared.task.n_held_out == 2
    assert prepare(write(tmp_path / "other", 29), config, 1).digest != prepared.digest


def test_the_same_text_and_seed_are_the_same_training(tmp_path: Path) -> None:
    data, found = write(tmp_path / "text"), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        prepared = prepare(data, RnnLmTrainingConfig(model=SIZES, batch_words=10), seed)
        batches = [batch.rows.tolist() for batch in prepared.task.batches(0)]
        found.append((batches, prepared.network.output.weight.tolist()))  # type: ignore[operator, union-attr]
    assert found[0] == found[1] and found[0][0] != found[2][0] and found[0][1] != found[2][1]


def test_an_empty_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\n \n")
    with pytest.raises(InputError, match="no sentence, expected target text"):
        prepare(Data(tmp_path / "text"), RnnLmTrainingConfig(), 1)


def test_sentences_that_are_all_too_long_are_refused(tmp_path: Path) -> None:
    config = RnnLmTrainingConfig(max_sentence_words=2)
    with pytest.raises(InputError, match="expected sentences of at most 2 words"):
        prepare(write(tmp_path / "text"), config, 1)


WORDS = Vocabulary([b"a", b"b", b"c", b"d"])
TARGETS = [b"a b", b"", b"d", b"a b c", b"c c c a b d", b"a zebra", b"a b"]


def make_model(unit: UnitName) -> TrainedModel[RnnLm]:
    torch.manual_seed(4)
    network = RnnLm(RnnLmConfig(unit, 16, 8, 8), len(WORDS))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return TrainedModel("rnn_lm", network.eval(), Shortlists(None, WORDS), {})


@pytest.mark.parametrize("unit", ["gated", "lstm"])
@pytest.mark.parametrize(("precision", "error"), [("float32", 1e-5), ("bfloat16", 0.3)])
def test_as_the_plain_network(unit: UnitName, precision: Precision, error: float) -> None:
    model = make_model(unit)
    batch = Batch([b"s%d" % i for i in range(len(TARGETS))], TARGETS)
    found = rnn_lm_scorer(model, Compute(precision, "cpu")).values(batch)
    ids, lens = WORDS.encode_phrases(TARGETS)
    with torch.inference_mode():
        plain = copy.deepcopy(model.network).double()
        expected = log_probs(plain, torch.from_numpy(ids).long(), torch.from_numpy(lens))
    differences = np.abs(found - expected.numpy())
    assert differences.max() < error
    assert (precision == "bfloat16") == (differences.max() > 1e-4)
    assert found[0] == pytest.approx(found[-1], abs=1e-9)


@torch.inference_mode()
def test_inputs_of_steps_are_those_of_the_network() -> None:
    network = make_model("lstm").network
    table = RnnLmTables(network, torch.float32)
    source = table.read(np.zeros((1, 1), np.int32), np.zeros(1, np.int64))
    words, rows = torch.tensor([-1, 0, 1, 5]), torch.zeros(4, dtype=torch.long)
    torch.testing.assert_close(
        table.inputs(words, source, rows).unit, network.inputs(words, source, rows).unit
    )


def test_a_network_without_these_words_is_refused() -> None:
    model = make_model("gated")
    more = Shortlists(None, Vocabulary([b"a", b"b", b"c", b"d", b"e", b"f"]))
    scorer = rnn_lm_scorer(TrainedModel("rnn_lm", model.network, more, {}), Compute(device="cpu"))
    with pytest.raises(IndexError):
        scorer.values(Batch([b"s"], [b"f"]))
