"""The contrastive loss against its definition, pair by pair in NumPy float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from rescorer.contract import TrainedModel
from rescorer.scorers.cptm.contrast import contrastive_loss
from rescorer.scorers.cptm.network import Cptm
from rescorer.training.encoded_pairs import EncodedPairs

if TYPE_CHECKING:
    from tests.rescorer.scorers.cptm.conftest import NumpyCode

# Of </s> <unk> x b y, where the source words are a b c.
TARGET_IDS = np.array([0, 1, 5, 3, 6])
# Joint ids of sources and targets; the targets of the second and fourth pair are the same.
SOURCES = [[2, 3], [4]]
TARGETS = [[5], [3, 6], [1], [3, 6], []]
PAIRS = EncodedPairs(
    sources=np.array([[2, 3, 0], [4, 0, 0]], np.int32),
    source_lens=np.array([2, 1]),
    targets=np.array([[2, 0, 0], [3, 4, 0], [1, 0, 0], [3, 4, 0], [0, 0, 0]], np.int32),
    target_lens=np.array([1, 2, 1, 2, 0]),
    groups=np.array([0, 0, 1, 1, 1]),
    weights=np.array([1.0, 2.0, 0.5, 3.0, 1.5]),
)


def plain_loss(numpy_code: NumpyCode, rows: list[int]) -> float:
    """Each pair's target against every other target of the batch that is none of its source's."""
    pairs = {(PAIRS.groups[row], tuple(TARGETS[row])) for row in rows}
    targets = {target for _, target in pairs}
    total = 0.0
    for row in rows:
        group, own = PAIRS.groups[row], tuple(TARGETS[row])
        code = numpy_code(SOURCES[group])
        values = {target: code @ numpy_code(target) for target in targets}
        others = sum(np.exp(v) for t, v in values.items() if (group, t) not in pairs)
        total -= PAIRS.weights[row] * np.log(np.exp(values[own]) / (np.exp(values[own]) + others))
    return float(total)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [4, 2, 0], [1, 3]])
def test_the_loss_is_its_definition(
    rows: list[int], model: TrainedModel[Cptm], numpy_code: NumpyCode
) -> None:
    network = model.network.double()
    found = contrastive_loss(network, PAIRS, np.array(rows), TARGET_IDS)
    assert found.item() == pytest.approx(plain_loss(numpy_code, rows), rel=1e-9)


def test_pairs_without_other_targets_teach_nothing(model: TrainedModel[Cptm]) -> None:
    loss = contrastive_loss(model.network, PAIRS, np.array([0, 1]), TARGET_IDS)
    loss.backward()
    assert loss.item() == 0
    for parameter in model.network.parameters():
        assert parameter.grad is not None and not parameter.grad.any()


def test_the_loss_falls_along_its_gradient(model: TrainedModel[Cptm]) -> None:
    network, rows = model.network.double(), np.arange(5)
    before = contrastive_loss(network, PAIRS, rows, TARGET_IDS)
    before.backward()
    with torch.no_grad():
        for parameter in network.parameters():
            assert parameter.grad is not None
            parameter -= 0.01 * parameter.grad
    assert contrastive_loss(network, PAIRS, rows, TARGET_IDS).item() < before.item()
