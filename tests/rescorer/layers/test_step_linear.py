from __future__ import annotations

import pytest
import torch

from rescorer.layers.step_linear import StepLinear, shared_steps


def network() -> torch.nn.Sequential:
    torch.manual_seed(1)
    return torch.nn.Sequential(StepLinear(6, 5), torch.nn.Tanh(), StepLinear(5, 6, bias=False))


def loss(layers: torch.nn.Module) -> torch.Tensor:
    """Three steps, of fewer and fewer rows."""
    rows = torch.randn(9, 6, generator=torch.Generator().manual_seed(2))
    for n_rows in (9, 7, 2):
        rows = layers(rows[:n_rows])
    return (rows**2).sum()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 0.05)])
def test_gradients_are_those_of_plain_layers(dtype: torch.dtype, tolerance: float) -> None:
    plain, ours = network(), network()
    loss(plain).backward()
    with shared_steps(ours, dtype):
        found = loss(ours)
    found.backward()
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None
        assert one.grad.dtype == torch.float32
        scale = float(other.grad.abs().max())
        torch.testing.assert_close(one.grad, other.grad, atol=tolerance * scale, rtol=0)


def test_a_second_update_knows_nothing_of_the_first() -> None:
    layers = network()
    gradients = []
    for _ in range(2):
        layers.zero_grad()
        with shared_steps(layers, torch.float32):
            found = loss(layers)
        found.backward()
        gradients.append([parameter.grad for parameter in layers.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=0, rtol=0)


def test_layers_are_plain_again_behind_an_error() -> None:
    layers = network()
    with pytest.raises(RuntimeError), shared_steps(layers, torch.bfloat16):
        layers(torch.zeros(2, 3))
    rows = torch.randn(4, 6)
    expected = torch.nn.functional.linear(rows, layers[0].weight, layers[0].bias)
    torch.testing.assert_close(layers[0](rows), expected, atol=0, rtol=0)


def test_a_layer_without_steps_has_no_gradient() -> None:
    layers = network()
    with shared_steps(layers, torch.float32):
        found = layers[2](torch.ones(1, 5)).sum()
    found.backward()
    assert layers[0].weight.grad is None and layers[2].weight.grad is not None
