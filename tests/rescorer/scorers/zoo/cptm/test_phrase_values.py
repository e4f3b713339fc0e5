from __future__ import annotations

import numpy as np
import torch

from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.scorers.zoo.cptm import Cptm, cptm_scorer, phrase_values

PAIRS = Batch([b"a", b"b c", b"a", b"c"], [b"x", b"y", b"b b", b""])


def test_values_are_those_of_scoring(model: TrainedModel[Cptm]) -> None:
    """Under the weights of that moment."""
    values = phrase_values(model, torch.float32)
    for scale in (1.0, 0.5):
        with torch.no_grad():
            model.network.projection.weight.mul_(scale)
        expected = cptm_scorer(model, Compute(device="cpu")).values(PAIRS)
        np.testing.assert_allclose(values(PAIRS).detach(), expected, atol=1e-6)


def test_gradients_reach_the_words_of_the_pairs_alone(model: TrainedModel[Cptm]) -> None:
    some = Batch(PAIRS.sources[1:3], PAIRS.targets[1:3])
    phrase_values(model, torch.float32)(some).sum().backward()
    gradient = model.network.word_vectors.weight.grad
    assert gradient is not None
    assert gradient.any(1).nonzero().flatten().tolist() == [2, 3, 4, 6]
