from __future__ import annotations

import pytest
import torch
from torch import nn

from rescorer.layers.initial_weights import draw_weights, scale_by_fan_in


def network() -> nn.ModuleDict:
    return nn.ModuleDict(
        {
            "embedding": nn.Embedding(200, 30),
            "recurrent": nn.Linear(20, 40),
            "layer": nn.Linear(60, 40),
            "output": nn.Linear(30, 200),
        }
    )


def test_each_kind_of_weight() -> None:
    """Glorot & Bengio (2010): U(-a, a) with a^2 = 6 / (fan in + fan out)."""
    torch.manual_seed(1)
    found = network()
    draw_weights(found, scale_by_fan_in)
    weights = found.state_dict()
    assert all(not value.any() for name, value in weights.items() if name.endswith("bias"))
    for block in weights["recurrent.weight"].split(20):
        torch.testing.assert_close(block @ block.T, torch.eye(20), atol=1e-5, rtol=0)
    limit = (6 / (60 + 40)) ** 0.5
    assert 0.95 * limit < weights["layer.weight"].abs().max().item() <= limit
    for name in ("embedding.weight", "output.weight"):
        assert weights[name].std().item() == pytest.approx(0.1, rel=0.1)


def test_others_are_drawn_as_told() -> None:
    names: list[str] = []
    draw_weights(network(), lambda name, _: names.append(name))
    assert names == ["embedding.weight", "layer.weight", "output.weight"]


def test_a_single_vector_has_no_fan_in() -> None:
    vector = nn.Parameter(torch.empty(2000))
    scale_by_fan_in("energy", vector)
    assert vector.std().item() == pytest.approx(0.1, rel=0.1)
