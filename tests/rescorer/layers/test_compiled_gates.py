"""Compiled loops of gated units against Cho et al. (2014), equations 5 to 8, in NumPy's float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit
from torch import nn

from rescorer.layers.compiled_gates import (
    CompiledGatedUnit,
    compile_gates,
    maxout,
    maxout_of_sum,
    sum_of_rows,
)
from rescorer.layers.products import narrow_layers, narrow_rows
from rescorer.layers.units import GatedState, GatedUnit, LstmUnit


@pytest.mark.parametrize(("n_rows", "d"), [(0, 3), (1, 1), (5, 33), (70, 8)])
@pytest.mark.parametrize("scale", [0.1, 5.0, 300.0])
@torch.inference_mode()
def test_a_step(n_rows: int, d: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(d)
    unit = GatedUnit(4, d)
    for parameter in unit.parameters():
        parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    x, h = (torch.randn(n_rows, n, generator=generator) for n in (4, d))
    inputs = x.double().numpy() @ unit.input.weight.double().numpy().T
    inputs += unit.input.bias.double().numpy()
    gates = h.double().numpy() @ unit.recurrent_gates.weight.double().numpy().T
    reset, update = np.split(expit(inputs[:, : 2 * d] + gates), 2, axis=1)
    weight = unit.recurrent_candidate.weight.double().numpy()
    candidate = np.tanh(inputs[:, 2 * d :] + (reset * h.double().numpy()) @ weight.T)
    expected = update * h.double().numpy() + (1 - update) * candidate
    compiled = CompiledGatedUnit(unit)
    found = compiled.step(compiled.carry(GatedState(h)), compiled.inputs(x))
    np.testing.assert_allclose(found.hidden.numpy(), expected, atol=1e-6 * (1 + scale))


@torch.inference_mode()
@pytest.mark.parametrize("n_rows", [1, 65])
def test_a_step_with_products_in_bfloat16(n_rows: int) -> None:
    torch.manual_seed(3)
    unit = GatedUnit(4, 7)
    x, h = torch.randn(n_rows, 4), torch.randn(n_rows, 7)
    narrow_layers(unit, unit.recurrent_layers, torch.bfloat16)
    expected = unit.step(unit.carry(GatedState(h)), unit.inputs(x)).hidden
    compiled = CompiledGatedUnit(unit)
    carried = compiled.carry(GatedState(h))
    assert carried.gates.dtype == torch.bfloat16 and len(carried.gates) == n_rows
    found = compiled.step(carried, compiled.inputs(x)).hidden
    torch.testing.assert_close(found, expected, atol=4e-3, rtol=0)
    assert (found - expected).abs().mean() < 1e-5


def test_gated_units_of_a_network_are_compiled() -> None:
    network = nn.ModuleDict(
        {"one": GatedUnit(2, 3), "two": nn.ModuleDict({"three": GatedUnit(3, 3)})}
    )
    network["lstm"] = LstmUnit(2, 3)
    weights = {id(parameter) for parameter in network.parameters()}
    compile_gates(network)
    kinds = type(network["one"]), type(network["two"]["three"]), type(network["lstm"])
    assert kinds == (CompiledGatedUnit, CompiledGatedUnit, LstmUnit)
    assert {id(parameter) for parameter in network.parameters()} == weights


def test_a_compiled_unit_is_not_trained() -> None:
    unit = CompiledGatedUnit(GatedUnit(2, 3))
    with pytest.raises(RuntimeError, match="grad"):
        unit.step(unit.carry(GatedState(torch.zeros(1, 3))), unit.inputs(torch.zeros(1, 2)))


@pytest.mark.parametrize("n", [0, 4])
def test_sums_of_rows(n: int) -> None:
    """-1 is the last row."""
    table, other = torch.arange(6.0).reshape(3, 2), torch.tensor([[10.0, 20.0], [30.0, 40.0]])
    chosen, of_other = torch.tensor([0, -1, 2, 1])[:n], torch.tensor([1, 0, 1, 0])[:n]
    expected = [[30.0, 41.0], [14.0, 25.0], [34.0, 45.0], [12.0, 23.0]][:n]
    assert sum_of_rows(table, chosen, other, of_other).tolist() == expected


def test_the_maximum_of_neighbours() -> None:
    assert maxout(torch.tensor([[1.0, 3.0, -2.0, -5.0]])).tolist() == [[3.0, -2.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_odd_width_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError):
        maxout(torch.zeros(2, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n_rows", [0, 1, 64, 65])
def test_of_a_sum(dtype: torch.dtype, n_rows: int) -> None:
    products, addends = torch.randn(n_rows, 10), torch.randn(n_rows, 10)
    products = narrow_rows(products, dtype)
    pairs = (products[:n_rows].double() + addends.double()).reshape(n_rows, 5, 2)
    found = maxout_of_sum(products, addends)
    assert found.shape == (len(products), 5) and not found[n_rows:].any()
    expected = pairs.max(dim=2).values.float().to(dtype)
    torch.testing.assert_close(found[:n_rows], expected, rtol=8e-3, atol=1e-6)


def test_of_a_sum_of_an_odd_width_is_refused() -> None:
    with pytest.raises(RuntimeError):
        maxout_of_sum(torch.zeros(2, 3), torch.zeros(2, 3))
