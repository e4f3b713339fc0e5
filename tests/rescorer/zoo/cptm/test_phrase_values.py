from __future__ import annotations

import numpy as np
import torch

from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.zoo.cptm.inference import cptm_scorer
from rescorer.zoo.cptm.network import Cptm
from rescorer.zoo.cptm.phrase_values import phrase_values

PAIRS = Batch([b"a", b"b c", b"a", b"c"], [b"x", b"y", b"b b", b""])


def test_values_are_those_of_scoring(model: TrainedModel[Cptm]) -> None:
    """Of any of the pairs in any order, under the weights of that moment."""
    values = phrase_values(model, PAIRS)
    for scale in (1.0, 0.5):
        with torch.no_grad():
            model.network.projection.weight.mul_(scale)
        expected = cptm_scorer(model, Compute(device="cpu")).values(PAIRS)
        found = values(np.array([3, 1, 1, 0])).detach()
        np.testing.assert_allclose(found, expected[[3, 1, 1, 0]], atol=1e-6)


def test_gradients_reach_the_words_of_the_pairs_alone(model: TrainedModel[Cptm]) -> None:
    phrase_values(model, PAIRS)(np.array([1, 2])).sum().backward()
    gradient = model.network.word_vectors.weight.grad
    assert gradient is not None
    assert gradient.any(1).nonzero().flatten().tolist() == [2, 3, 4, 6]
