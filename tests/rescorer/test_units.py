from __future__ import annotations

import math

import pytest
import torch

from rescorer.units import GatedState, GatedUnit


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def step(unit: GatedUnit, hidden: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The next state."""
    return unit.step(unit.carry(GatedState(hidden)), unit.inputs(x)).hidden


def test_one_unit_by_hand() -> None:
    unit = GatedUnit(1, 1).double()
    with torch.no_grad():
        unit.input.weight[:] = torch.tensor([[0.3], [-0.7], [1.1]])
        unit.input.bias[:] = torch.tensor([0.1, 0.2, -0.4])
        unit.recurrent_gates.weight[:] = torch.tensor([[0.9], [0.5]])
        unit.recurrent_candidate.weight[:] = torch.tensor([[-1.3]])
    x, h = 2.0, 0.6
    r = logistic(0.3 * x + 0.1 + 0.9 * h)
    z = logistic(-0.7 * x + 0.2 + 0.5 * h)
    candidate = math.tanh(1.1 * x - 0.4 - 1.3 * (r * h))
    found = step(unit, torch.tensor([[h]]).double(), torch.tensor([[x]]).double())
    assert math.isclose(found.item(), z * h + (1 - z) * candidate, rel_tol=1e-7)


def test_the_reset_gate_acts_before_the_product() -> None:
    """A reset unit is not seen by the others: its state may be anything."""
    unit = GatedUnit(1, 2)
    with torch.no_grad():
        unit.input.weight.zero_()
        unit.input.bias[:] = torch.tensor([-100.0, 100.0, -100.0, -100.0, 0.3, 0.3])
        unit.recurrent_gates.weight.zero_()
        unit.recurrent_candidate.weight[:] = torch.tensor([[5.0, 1.0], [5.0, 1.0]])
    x = torch.zeros(1, 1)
    one, other = (step(unit, torch.tensor([[first, 0.2]]), x) for first in (-0.9, 0.8))
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(one, torch.full((1, 2), math.tanh(0.3 + 0.2)))


def test_is_not_the_unit_of_torch() -> None:
    torch.manual_seed(1)
    unit, other = GatedUnit(3, 5), torch.nn.GRUCell(3, 5, bias=False)
    with torch.no_grad():
        unit.input.bias.zero_()
        other.weight_ih[:] = unit.input.weight
        gates, candidate = unit.recurrent_gates.weight, unit.recurrent_candidate.weight
        other.weight_hh[:] = torch.cat([gates, candidate])
    x, h = torch.randn(4, 3), torch.randn(4, 5)
    assert (step(unit, h, x) - other(x, h)).abs().max() > 1e-3
    zero = torch.zeros(4, 5)
    torch.testing.assert_close(step(unit, zero, x), other(x, zero))


def test_the_first_state_is_zero() -> None:
    unit = GatedUnit(3, 5).double()
    hidden = unit.start(4).hidden
    assert hidden.shape == (4, 5) and hidden.dtype == torch.float64 and not hidden.any()


def test_what_a_parent_carries_serves_all_its_children() -> None:
    torch.manual_seed(2)
    unit = GatedUnit(3, 5)
    hidden, x = torch.randn(1, 5), torch.randn(6, 3)
    carried = unit.carry(GatedState(hidden))
    together = unit.step(type(carried)(*(field.expand(6, -1) for field in carried)), unit.inputs(x))
    torch.testing.assert_close(together.hidden, step(unit, hidden.expand(6, -1), x))


def test_inputs_of_another_width_are_refused() -> None:
    unit = GatedUnit(3, 5)
    with pytest.raises(RuntimeError):
        unit.inputs(torch.ones(2, 4))
