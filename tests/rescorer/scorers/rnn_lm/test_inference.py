"""The network with looked-up words against the plain one."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute, Precision
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.units import UnitName
from rescorer.scorers.rnn_lm.inference import RnnLmTables, rnn_lm_scorer
from rescorer.scorers.rnn_lm.network import RnnLm, RnnLmConfig

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
        expected = plain.log_probs(torch.from_numpy(ids).long(), torch.from_numpy(lens))
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
