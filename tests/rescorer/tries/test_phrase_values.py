"""Values of phrase pairs and their gradients against the plain likelihood in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec.inference import encdec_scorer
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.tries import phrase_values as module
from rescorer.tries.phrase_values import log_probs, phrase_values
from tests.rescorer.tries.conftest import make_data, make_network, pair_by_pair

ROWS = np.array([50, 3, 88, 7, 51, 3])
PAIRS = Batch([b"a", b"b z", b"a", b"b z"], [b"x y", b"", b"x", b"y unknown"])


@pytest.mark.parametrize("prefixes_at_once", [256, 5])
def test_values_and_gradients_are_those_of_the_plain_path(
    prefixes_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pair has a weight of its own, as in a training on whole translations; a pair may come twice."""
    monkeypatch.setattr(module, "PREFIXES_AT_ONCE", prefixes_at_once)
    network, plain, data = make_network(), make_network(), make_data()
    found = log_probs(network, data, ROWS)
    expected = [-pair_by_pair(plain, data, [row]) / data.weights[row] for row in ROWS]
    torch.testing.assert_close(found, torch.stack(expected))
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0, 4.0], dtype=torch.float64)
    (weights @ found).backward()
    (weights @ torch.stack(expected)).backward()
    for (name, one), other in zip(network.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)


def test_pairs_that_weigh_next_to_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second pair weighs less than float32 resolves, the third one nothing."""
    network, plain, data = make_network(), make_network(), make_data()
    learned = []
    loss = module.pairs_loss
    monkeypatch.setattr(
        module,
        "pairs_loss",
        lambda network, data, *others: (learned.append(len(data)), loss(network, data, *others))[1],
    )
    (torch.tensor([2.0, 1e-8, 0.0]).double() @ log_probs(network, data, ROWS[:3])).backward()
    (-2 * pair_by_pair(plain, data, ROWS[:1]) / data.weights[ROWS[0]]).sum().backward()
    assert learned == [1]
    for (name, one), other in zip(network.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)


def test_where_all_weigh_nothing_there_is_no_gradient() -> None:
    network = make_network()
    (0 * log_probs(network, make_data(), ROWS)).sum().backward()
    assert all(parameter.grad is None for parameter in network.parameters())


def test_fewer_pairs_than_words() -> None:
    network, data = make_network(), make_data()
    row = int(data.target_lens.argmax())
    expected = -pair_by_pair(network, data, [row]) / data.weights[row]
    torch.testing.assert_close(log_probs(network, data, np.array([row]))[0], expected)


def test_values_are_those_of_scoring() -> None:
    """Of any of the pairs in any order, under the weights of that moment."""
    torch.manual_seed(1)
    shortlists = Shortlists(Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y"]))
    network = EncoderDecoder(EncDecConfig(6, 4, 3), 4, 4)
    network.initialise(0.5)
    model = TrainedModel("encdec", network, shortlists, {})
    values = phrase_values(model, PAIRS)
    for scale in (1.0, 0.5):
        with torch.no_grad():
            network.readout_factor.weight.mul_(scale)
        expected = encdec_scorer(model, Compute(device="cpu")).values(PAIRS)
        found = values(np.array([3, 1, 1, 0])).detach()
        np.testing.assert_allclose(found, expected[[3, 1, 1, 0]], atol=1e-5)


def test_a_network_that_reads_no_source_has_no_pairs() -> None:
    model = TrainedModel("encdec", make_network(), Shortlists(None, Vocabulary([b"x"])), {})
    with pytest.raises(ValueError, match="phrase pairs need a source shortlist"):
        phrase_values(model, PAIRS)
