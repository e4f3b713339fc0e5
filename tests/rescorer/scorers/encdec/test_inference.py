"""The network with looked-up words against the plain one, pair by pair."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.units import UnitName
from rescorer.scorers.encdec import (
    EncDecConfig,
    EncoderDecoder,
    EncoderDecoderTables,
    encdec_scorer,
)
from tests.rescorer.plain_networks import log_probs

SOURCE, TARGET = Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y"])
SHORTLISTS = Shortlists(SOURCE, TARGET)


def make_model(deviation: float = 0.5, unit: UnitName = "gated") -> TrainedModel[EncoderDecoder]:
    torch.manual_seed(4)
    network = EncoderDecoder(EncDecConfig(16, 8, 8, unit), len(SOURCE), len(TARGET))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=deviation)
    return TrainedModel("encdec", network.eval(), SHORTLISTS, {})


def make_pairs(n: int) -> Batch:
    rng = random.Random(2)
    sources = [
        b" ".join(rng.choices([b"a", b"b", b"c", b"d"], k=rng.randint(1, 4))) for _ in range(n)
    ]
    targets = [b" ".join(rng.choices([b"x", b"y", b"z"], k=rng.randint(0, 4))) for _ in range(n)]
    return Batch(sources, targets)


@torch.inference_mode()
def plain(network: EncoderDecoder, batch: Batch) -> NDArray[np.float64]:
    arrays = (*SOURCE.encode_phrases(batch.sources), *TARGET.encode_phrases(batch.targets))
    tensors = [torch.from_numpy(array.astype(np.int64)) for array in arrays]
    return np.asarray(log_probs(network.double(), *tensors))


@pytest.mark.parametrize("unit", ["gated", "lstm"])
@pytest.mark.parametrize(("precision", "error"), [("float32", 1e-5), ("bfloat16", 0.3)])
def test_as_the_plain_network(precision: str, error: float, unit: UnitName) -> None:
    model, batch = make_model(unit=unit), make_pairs(150)
    found = encdec_scorer(model, Compute(precision, "cpu")).values(batch)  # type: ignore[arg-type]
    differences = np.abs(found - plain(copy.deepcopy(model.network), batch))
    assert differences.max() < error
    assert (precision == "bfloat16") == (differences.max() > 1e-4)


def test_the_network_itself_is_not_changed() -> None:
    model = make_model()
    before = copy.deepcopy(model.network.state_dict())
    encdec_scorer(model, Compute("bfloat16", "cpu")).values(make_pairs(5))
    for name, tensor in model.network.state_dict().items():
        assert torch.equal(tensor, before[name]) and tensor.dtype == torch.float32


@torch.inference_mode()
def test_inputs_of_steps_are_those_of_the_network() -> None:
    """The previous word of a first step is none; the bias of the readout is added to its inputs."""
    network = make_model().network
    tables = EncoderDecoderTables(network, torch.float32)
    ids, lens = SOURCE.encode_phrases([b"a", b"c b"])
    source = tables.read(ids, lens)
    for found, expected in zip(source, network.read(ids, lens), strict=True):
        torch.testing.assert_close(found, expected)
    words, rows = torch.tensor([-1, 0, 1, 3, -1]), torch.tensor([0, 0, 1, 1, 1])
    found, expected = (net.inputs(words, source, rows) for net in (tables, network))
    torch.testing.assert_close(found.unit, expected.unit)
    bias = network.hidden_to_readout.bias
    torch.testing.assert_close(found.readout, expected.readout + bias)


def test_without_the_denominator_values_are_sums_of_logits() -> None:
    """Adding a number to all biases adds it once a word and for </s>."""
    model, batch = make_model(), make_pairs(40)
    bare = Compute(device="cpu", unnormalized=True)
    before = encdec_scorer(model, bare).values(batch)
    with torch.no_grad():
        model.network.output.bias += 0.25
    after = encdec_scorer(model, bare).values(batch)
    n_steps = np.array([len(target.split()) + 1 for target in batch.targets])
    np.testing.assert_allclose(after - before, 0.25 * n_steps, atol=1e-5)


def test_a_network_without_these_words_is_refused() -> None:
    """A vocabulary with more words than the network has places for."""
    model = make_model()
    more = Shortlists(Vocabulary([b"a", b"b", b"c", b"d"]), TARGET)
    scorer = encdec_scorer(TrainedModel("encdec", model.network, more, {}), Compute(device="cpu"))
    with pytest.raises(IndexError):
        scorer.values(Batch([b"d"], [b"x"]))
