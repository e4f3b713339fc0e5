"""States over the levels of a tree, against Cho et al. (2014), equations 5 to 8, node by node in float64."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.layers.gated_levels import gated_states, has_compiled_levels
from rescorer.layers.step_linear import shared_steps
from rescorer.layers.units import GatedUnit, LstmUnit

Parents = list[NDArray[np.int64]]


class Results(NamedTuple):
    """States, and the gradients of a weighted sum of them."""

    states: Tensor
    start: Tensor
    inputs: Tensor
    gates: Tensor
    candidate: Tensor


class Case(NamedTuple):
    """A tree with all that its states are made of."""

    unit: GatedUnit
    start: Tensor
    inputs: Tensor
    parents: Parents
    weights: Tensor


def case(d: int, n_roots: int, sizes: list[int], scale: float) -> Case:
    rng, generator = np.random.default_rng(d), torch.Generator().manual_seed(d)
    unit = GatedUnit(4, d)
    with torch.no_grad():
        for parameter in unit.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator) / d**0.5)
    before = [n_roots, *sizes]
    parents = [np.sort(rng.integers(0, n, m)) for n, m in zip(before, sizes, strict=False)]
    n_nodes = sum(sizes)
    shapes = (n_roots, d), (n_nodes, 3 * d), (n_nodes, d)
    start, inputs, weights = (torch.randn(shape, generator=generator) for shape in shapes)
    return Case(unit, start, scale * inputs, parents, weights)


def results(states: Tensor, weights: Tensor, *given: Tensor) -> Results:
    return Results(states.detach(), *torch.autograd.grad((states * weights).sum(), given))


def compiled(case: Case, dtype: torch.dtype) -> Results:
    start, inputs = case.start.clone().requires_grad_(), case.inputs.clone().requires_grad_()
    unit = case.unit
    with shared_steps(unit, dtype):
        states = gated_states(unit, start, case.parents, inputs)
    given = start, inputs, unit.recurrent_gates.weight, unit.recurrent_candidate.weight
    return results(states, case.weights, *given)


def node_by_node(case: Case) -> Results:
    """In PyTorch's float64, each node from the whole of its parent."""
    unit = case.unit
    gates, candidate = unit.recurrent_gates.weight, unit.recurrent_candidate.weight
    given = case.start, case.inputs, gates, candidate
    start, inputs, gates, candidate = (part.detach().double().requires_grad_() for part in given)
    reset_weight, update_weight = gates.chunk(2)
    before, states, node = [*start], [], 0
    for parents in case.parents:
        level = []
        for parent in parents:
            hidden, (reset, update, candidate_input) = before[parent], inputs[node].chunk(3)
            reset = torch.sigmoid(reset + reset_weight @ hidden)
            update = torch.sigmoid(update + update_weight @ hidden)
            new = torch.tanh(candidate_input + candidate @ (reset * hidden))
            level.append(update * hidden + (1 - update) * new)
            node += 1
        before = level
        states += level
    return results(torch.stack(states), case.weights.double(), start, inputs, gates, candidate)


def distance(found: Tensor, expected: Tensor) -> float:
    """The error as a share of the norm, or of 0.1 where numbers are small: 1 - g^2 has lost digits there."""
    return float((found.double() - expected).norm() / expected.norm().clamp(min=0.1))


TREES = [(1, 1, [1]), (5, 3, [4, 2, 6, 1]), (33, 40, [70, 120, 64, 3]), (16, 2, [2, 2])]


@pytest.mark.parametrize("scale", [0.1, 1.0, 6.0])
@pytest.mark.parametrize(("d", "n_roots", "sizes"), TREES)
def test_states_and_gradients(d: int, n_roots: int, sizes: list[int], scale: float) -> None:
    tree = case(d, n_roots, sizes, scale)
    ours = compiled(tree, torch.float32)
    for found, expected in zip(ours, node_by_node(tree), strict=True):
        assert found.dtype == torch.float32
        assert distance(found, expected) < 3e-6


@pytest.mark.parametrize(("d", "n_roots", "sizes"), TREES)
def test_products_in_bfloat16(d: int, n_roots: int, sizes: list[int]) -> None:
    tree = case(d, n_roots, sizes, 1.0)
    ours = compiled(tree, torch.bfloat16)
    for found, expected in zip(ours, node_by_node(tree), strict=True):
        assert found.dtype == torch.float32
        assert distance(found, expected) < 0.02


def test_a_gradient_that_is_one_number_for_all() -> None:
    tree = case(5, 3, [4, 2], 1.0)
    inputs = tree.inputs.clone().requires_grad_()
    gated_states(tree.unit, tree.start, tree.parents, inputs).sum().backward()
    expected = node_by_node(tree._replace(weights=torch.ones_like(tree.weights)))
    assert inputs.grad is not None and distance(inputs.grad, expected.inputs) < 3e-6


def test_a_layer_that_is_not_shared_has_products_of_its_own_type() -> None:
    tree = case(5, 3, [4, 2], 1.0)
    found = gated_states(tree.unit, tree.start, tree.parents, tree.inputs)
    assert torch.equal(found, compiled(tree, torch.float32).states)


def test_what_is_not_a_gated_unit_in_float32_is_not_for_these_loops() -> None:
    rows = torch.zeros(1, 6)
    assert has_compiled_levels(GatedUnit(2, 2), rows)
    assert not has_compiled_levels(GatedUnit(2, 2).double(), rows.double())
    assert not has_compiled_levels(LstmUnit(2, 2), rows)


def test_inputs_of_another_width_are_refused() -> None:
    tree = case(5, 3, [4, 2], 1.0)
    with pytest.raises(ValueError, match="width"):
        gated_states(tree.unit, tree.start, tree.parents, tree.inputs[:, :-1])


def test_parents_of_fewer_nodes_are_refused() -> None:
    tree = case(5, 3, [4, 2], 1.0)
    with pytest.raises(ValueError, match="nodes"):
        gated_states(tree.unit, tree.start, tree.parents[:1], tree.inputs)


def test_a_parent_that_is_not_there_is_refused() -> None:
    tree = case(5, 3, [4, 2], 1.0)
    with pytest.raises(ValueError, match="parent"):
        gated_states(tree.unit, tree.start[:1], tree.parents, tree.inputs)


def test_the_first_parent_behind_the_last_one_is_refused() -> None:
    """The compiled loops would read behind the end of the array."""
    tree = case(5, 3, [4, 2], 1.0)
    for level, n_before in enumerate([3, 4]):
        parents = [of_level.copy() for of_level in tree.parents]
        parents[level][-1] = n_before
        with pytest.raises(ValueError, match=f"parents . to {n_before} of {n_before}"):
            gated_states(tree.unit, tree.start, parents, tree.inputs)
