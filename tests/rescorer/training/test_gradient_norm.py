from __future__ import annotations

import pytest
import torch
from torch import nn

from rescorer.training.gradient_norm import clip_gradients


def weights(scale: float) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    made = [nn.Parameter(torch.zeros(shape)) for shape in ((40, 30), (30,), (7, 3))]
    for weight in made[:2]:
        weight.grad = scale * torch.randn(weight.shape, generator=generator)
    return made


@pytest.mark.parametrize("scale", [0.001, 0.02, 1.0, 1e4, float("nan")])
@pytest.mark.parametrize("limit", [0.0, 0.5, 1.0])
def test_the_gradients_are_those_of_pytorch(scale: float, limit: float) -> None:
    ours, expected = weights(scale), weights(scale)
    clip_gradients(ours, limit)
    nn.utils.clip_grad_norm_(expected, limit)
    for one, other in zip(ours, expected, strict=True):
        if other.grad is None:
            assert one.grad is None
        else:
            torch.testing.assert_close(one.grad, other.grad, atol=0, rtol=0, equal_nan=True)


def test_without_gradients_nothing_happens() -> None:
    clip_gradients([nn.Parameter(torch.ones(2))], 1.0)
    clip_gradients([], 1.0)
