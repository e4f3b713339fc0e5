from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.zoo.cptm import Cptm, CptmConfig

# Joint ids: </s> <unk> a b c x y; "b" is a word of both languages.
SHORTLISTS = Shortlists(Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"b", b"y"]))
N_JOINT = 7


@pytest.fixture
def model() -> TrainedModel[Cptm]:
    torch.manual_seed(1)
    network = Cptm(CptmConfig(hidden_width=4, code_width=3), N_JOINT)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return TrainedModel("cptm", network.eval(), SHORTLISTS, {})


NumpyCode = Callable[[Sequence[int]], NDArray[np.float64]]


@pytest.fixture
def numpy_code(model: TrainedModel[Cptm]) -> NumpyCode:
    """The equations of the paper for joint ids: counts, two matrices, two tanh."""
    weights = {
        name: value.detach().double().numpy() for name, value in model.network.named_parameters()
    }

    def code(ids: Sequence[int]) -> NDArray[np.float64]:
        counts = np.bincount(np.array(ids, int), minlength=N_JOINT)
        return np.tanh(
            weights["projection.weight"] @ np.tanh(weights["word_vectors.weight"].T @ counts)
        )

    return code
