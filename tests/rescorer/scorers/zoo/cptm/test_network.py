"""The continuous-space phrase model against its equations in NumPy float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError
from rescorer.contract.trained_model import TrainedModel
from rescorer.scorers.zoo.cptm import Cptm, CptmConfig, similarities

if TYPE_CHECKING:
    from tests.rescorer.scorers.cptm.conftest import NumpyCode

IDS = np.array([[2, 3, 2, 0], [0, 0, 0, 0], [6, 1, 0, 0], [0, 0, 0, 0]])
LENS = np.array([3, 0, 2, 0])


def test_codes_are_those_of_the_equations(model: TrainedModel[Cptm], numpy_code: NumpyCode) -> None:
    """A word counts as often as it comes; a phrase without words has a code of zeros."""
    network = model.network.double()
    expected = [numpy_code(ids) for ids in ([2, 3, 2], [], [6, 1], [])]
    np.testing.assert_allclose(network.codes(IDS, LENS).detach(), expected, atol=1e-12)
    assert not expected[1].any()


def test_similarities_are_products_of_rows() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    found = similarities(torch.from_numpy(one), torch.from_numpy(other))
    np.testing.assert_allclose(found, np.diag(one @ other.T))


def test_the_second_layer_starts_as_the_identity() -> None:
    network = Cptm(CptmConfig(hidden_width=3, code_width=3), 5)
    assert torch.equal(network.projection.weight, torch.eye(3))
    assert network.word_vectors.weight.shape == (5, 3)
    assert 0.02 < float(network.word_vectors.weight.detach().std()) < 0.3


@pytest.mark.parametrize("name", ["hidden_width", "code_width"])
def test_a_layer_without_units_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        CptmConfig(**{name: 0})
