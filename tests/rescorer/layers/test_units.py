"""."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from rescorer.layers.units import (
    GatedState,
    GatedUnit,
    LstmState,
    LstmUnit,
    draw_weights,
    new_unit,
    scale_by_fan_in,
)


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


def test_one_lstm_step_by_hand() -> None:
    unit = LstmUnit(1, 1).double()
    with torch.no_grad():
        unit.input.weight[:] = torch.tensor([[0.3], [-0.7], [1.1], [0.4]])
        unit.input.bias[:] = torch.tensor([0.1, 0.2, -0.4, 0.6])
        unit.recurrent.weight[:] = torch.tensor([[0.9], [0.5], [-1.3], [0.8]])
    x, h, c = 2.0, 0.6, -0.9
    i = logistic(0.3 * x + 0.1 + 0.9 * h)
    f = logistic(-0.7 * x + 0.2 + 0.5 * h)
    g = math.tanh(1.1 * x - 0.4 - 1.3 * h)
    o = logistic(0.4 * x + 0.6 + 0.8 * h)
    state = unit.state(torch.tensor([[h, c]]).double())
    found = unit.step(unit.carry(state), unit.inputs(torch.tensor([[x]]).double()))
    cell = f * c + i * g
    assert math.isclose(found.cell.item(), cell, rel_tol=1e-7)
    assert math.isclose(found.hidden.item(), o * math.tanh(cell), rel_tol=1e-7)


def test_the_lstm_is_that_of_torch() -> None:
    torch.manual_seed(3)
    unit, other = LstmUnit(3, 5), torch.nn.LSTMCell(3, 5)
    with torch.no_grad():
        other.weight_ih[:], other.bias_ih[:] = unit.input.weight, unit.input.bias
        other.weight_hh[:] = unit.recurrent.weight
        other.bias_hh.zero_()
    state, expected = unit.start(4), (torch.zeros(4, 5), torch.zeros(4, 5))
    for x in torch.randn(6, 4, 3):
        state = unit.step(unit.carry(state), unit.inputs(x))
        expected = other(x, expected)
        torch.testing.assert_close(tuple(state), expected)


def test_a_new_lstm_keeps_its_cells() -> None:
    unit = LstmUnit(3, 2)
    unit.reset_bias()
    assert unit.input.bias.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert not new_unit("gated", 3, 2).input.bias.isnan().any()


@pytest.mark.parametrize(("name", "width"), [("gated", 5), ("lstm", 10)])
def test_states_are_made_of_their_fields(name: str, width: int) -> None:
    unit = new_unit(name, 3, 5)  # type: ignore[arg-type]
    assert unit.state_width == width
    fields = torch.randn(4, width)
    torch.testing.assert_close(torch.cat(unit.state(fields), dim=1), fields)
    assert type(unit.state(fields)) is type(unit.start(1))


def test_a_state_without_its_cell_is_refused() -> None:
    unit = LstmUnit(3, 5)
    with pytest.raises((RuntimeError, TypeError, AttributeError)):
        unit.step(unit.carry(GatedState(torch.zeros(1, 5))), torch.zeros(1, 20))  # type: ignore[arg-type]
    assert isinstance(unit.start(2), LstmState)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(KeyError):
        new_unit("elman", 3, 5)  # type: ignore[arg-type]


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
