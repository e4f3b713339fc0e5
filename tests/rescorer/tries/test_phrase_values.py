"""Values of phrase pairs and their gradients against the plain likelihood in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder, encdec_scorer
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries import phrase_values as module
from rescorer.tries.phrase_values import log_probs_of, phrase_values
from tests.rescorer.tries.conftest import make_data, make_network, pair_by_pair

DATA = make_data().part(np.array([50, 3, 88, 7, 51, 3]))
WEIGHTS = torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0, 4.0], dtype=torch.float64)
PAIRS = Batch([b"a", b"b z", b"a", b"b z"], [b"x y", b"", b"x", b"y unknown"])


def plain_values(network: EncoderDecoder, data: EncodedPairs) -> Tensor:
    values = [-pair_by_pair(network, data, [row]) / data.weights[row] for row in range(len(data))]
    return torch.stack(values)


def plain_gradients(weights: Tensor) -> list[Tensor]:
    network = make_network()
    loss = weights @ plain_values(network, DATA)
    return list(torch.autograd.grad(loss, tuple(network.parameters()), allow_unused=True))


@pytest.mark.parametrize("prefixes_at_once", [256, 5])
def test_values_and_gradients_are_those_of_the_plain_path(
    prefixes_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pair has a weight of its own, as in a training on whole translations; a pair may come twice."""
    monkeypatch.setattr(module, "PREFIXES_AT_ONCE", prefixes_at_once)
    monkeypatch.setattr(module, "LEAST_SHARE", 0.0)
    network = make_network()
    found = log_probs_of(network, torch.float32)(DATA)
    torch.testing.assert_close(found, plain_values(network, DATA))
    (WEIGHTS @ found).backward()
    for (name, one), other in zip(
        network.named_parameters(), plain_gradients(WEIGHTS), strict=True
    ):
        torch.testing.assert_close(one.grad, other, msg=name)


@pytest.mark.parametrize(("product_type", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_a_network_in_float32(product_type: torch.dtype, error: float) -> None:
    """Compiled gates and softmax, and products of either type, against the plain path in float64."""
    network = make_network().float()
    found = log_probs_of(network, product_type)(DATA)
    expected = plain_values(make_network(), DATA)
    assert float((found - expected).detach().abs().max()) <= error * float(
        expected.detach().abs().max()
    )
    (WEIGHTS.float() @ found).backward()
    for (name, one), other in zip(
        network.named_parameters(), plain_gradients(WEIGHTS), strict=True
    ):
        assert one.grad is not None
        assert float((one.grad - other).norm()) <= 2 * error * float(other.norm()), name


def test_pairs_that_weigh_next_to_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first one weigh less together than float32 resolves."""
    learned = []
    loss = module.pairs_loss
    monkeypatch.setattr(
        module,
        "pairs_loss",
        lambda network, data, rows, kind: (
            learned.append(len(rows)),
            loss(network, data, rows, kind),
        )[1],
    )
    network = make_network()
    weights = torch.tensor([2.0, 1e-8, 0, -1e-7, 0, 1e-8]).double()
    (weights @ log_probs_of(network, torch.float32)(DATA)).backward()
    assert learned == [1]
    for (name, one), other in zip(
        network.named_parameters(), plain_gradients(2 * torch.eye(6).double()[0]), strict=True
    ):
        torch.testing.assert_close(one.grad, other, msg=name)


@pytest.mark.parametrize(
    ("product_type", "expected"), [(torch.float32, [0, 1, 3]), (torch.bfloat16, [1])]
)
def test_less_is_learned_from_where_products_are_narrow(
    product_type: torch.dtype, expected: list[int]
) -> None:
    """The last two weigh together 4e-7 of all; the first and the fourth 0.008."""
    sizes = np.array([0.006, 1.0, 1e-7, 0.002, 3e-7])
    assert np.flatnonzero(module._chosen(sizes, product_type)).tolist() == expected


def test_where_all_weigh_nothing_there_is_no_gradient() -> None:
    network = make_network()
    (0 * log_probs_of(network, torch.float32)(DATA)).sum().backward()
    assert all(parameter.grad is None for parameter in network.parameters())


def test_fewer_pairs_than_words() -> None:
    network, data = make_network(), make_data()
    longest = data.part(np.array([data.target_lens.argmax()]))
    found = log_probs_of(network, torch.float32)(longest)
    torch.testing.assert_close(found, plain_values(network, longest))


def test_values_are_those_of_scoring() -> None:
    """Under the weights of that moment."""
    torch.manual_seed(1)
    shortlists = Shortlists(Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y"]))
    network = EncoderDecoder(EncDecConfig(6, 4, 3), 4, 4)
    network.initialise(0.5)
    model = TrainedModel("encdec", network, shortlists, {})
    values = phrase_values(model, torch.float32)
    for scale in (1.0, 0.5):
        with torch.no_grad():
            network.readout_factor.weight.mul_(scale)
        expected = encdec_scorer(model, Compute(device="cpu")).values(PAIRS)
        np.testing.assert_allclose(values(PAIRS).detach(), expected, atol=1e-5)


def test_a_network_that_reads_no_source_has_no_pairs() -> None:
    model = TrainedModel("encdec", make_network(), Shortlists(None, Vocabulary([b"x"])), {})
    with pytest.raises(ValueError, match="phrase pairs need a source shortlist"):
        phrase_values(model, torch.float32)(PAIRS)
