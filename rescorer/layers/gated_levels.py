"""States of a gated unit over the levels of a tree, with gradients, in compiled loops for training on a CPU.

Autograd has a node for each operation of each level, hundreds of small ones an update, which take up to a
fifth of the time when the products are fast. Here all levels are one operation with a handwritten gradient.
The products of a parent are computed once for all its children, and the gradient of a weight is one product
over all levels.

Notation: N nodes, level by level; d = hidden_width; a node with the inputs a, b and c and its parent's state
h has the state z h + (1 - z) g, with r = sigmoid(a + U_r h), z = sigmoid(b + U_z h) and g = tanh(c + U (r
h)): Cho et al. (2014), section 2.3, equations 5 to 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.compiled.kept_code import njit
from rescorer.layers.float_bits import narrowed, sigmoid, tanh, widened
from rescorer.layers.products import Floats, Ints, Numbers, n_narrow_rows, numpy_numbers
from rescorer.layers.units import GatedUnit


def has_compiled_levels(unit: object, inputs: Tensor) -> bool:
    """Whether `gated_states` supports this unit and these inputs."""
    return type(unit) is GatedUnit and inputs.device.type == "cpu" and inputs.dtype == torch.float32


def gated_states(unit: GatedUnit, start: Tensor, parents: Sequence[Ints], inputs: Tensor) -> Tensor:
    """Compute the states of all nodes of a tree.

    Args:
        unit: makes the steps; `shared_steps` sets the type of its products.
        start: the states before the first level, *Shape:* (any, d).
        parents: for each level, the parents of its nodes in the level before (in `start` for the first),
            rising.
        inputs: `GatedUnit.inputs` of all nodes, level by level, *Shape:* (N, 3 d).

    Returns:
        *Shape:* (N, d).

    Raises:
        ValueError: the inputs have a wrong width, the number of parents differs, or a parent does not exist.
    """
    _check(start, parents, inputs)
    gates, candidate = unit.recurrent_gates, unit.recurrent_candidate
    dtype = gates.shared_type or gates.weight.dtype
    states: Tensor = _GatedStates.apply(  # type: ignore[no-untyped-call]
        start, inputs, gates.weight, candidate.weight, parents, dtype
    )
    return states


def _check(start: Tensor, parents: Sequence[Ints], inputs: Tensor) -> None:
    """Check bounds, which the compiled loops do not."""
    if inputs.shape[1] != 3 * start.shape[1]:
        raise ValueError(f"inputs of width {inputs.shape[1]} for states of width {start.shape[1]}")
    sizes = [*map(len, parents)]
    if sum(sizes) != len(inputs):
        raise ValueError(f"parents of {sum(sizes)} nodes and inputs of {len(inputs)}")
    for of_level, n_before in zip(parents, [len(start), *sizes], strict=False):
        if len(of_level) and not 0 <= of_level[0] <= of_level[-1] < n_before:
            raise ValueError(f"parents {of_level[0]} to {of_level[-1]} of {n_before}")


def are_first_children(parents: Ints) -> NDArray[np.bool_]:
    """Mark the nodes that are the first child of their parent; `parents` is rising, *Shape:* (n,) -> (n,)."""
    are_first = np.ones(len(parents), np.bool_)
    are_first[1:] = parents[1:] != parents[:-1]
    return are_first


class _Level(NamedTuple):
    """The nodes of a level and the heads, the nodes of the level before that have children."""

    nodes: slice
    parents: Ints  # of each node in the level before, rising, (n,)
    firsts: Ints  # the first child of each head, and n at the end, (n_heads + 1,)
    node_rows: slice  # of the nodes in products, with the zero rows of `narrow_rows`
    head_rows: slice  # the same for the heads


def _levels(parents: Sequence[Ints], dtype: torch.dtype) -> list[_Level]:
    levels, node, node_row, head_row = [], 0, 0, 0
    for of_nodes in parents:
        n_nodes = len(of_nodes)
        firsts = np.append(np.flatnonzero(are_first_children(of_nodes)), n_nodes)
        node_end = node_row + n_narrow_rows(n_nodes, dtype)
        head_end = head_row + n_narrow_rows(len(firsts) - 1, dtype)
        nodes = slice(node, node + n_nodes)
        levels.append(
            _Level(nodes, of_nodes, firsts, slice(node_row, node_end), slice(head_row, head_end))
        )
        node, node_row, head_row = nodes.stop, node_end, head_end
    return levels


class _GatedStates(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        start: Tensor,
        inputs: Tensor,
        gates: Tensor,
        candidate: Tensor,
        parents: Sequence[Ints],
        dtype: torch.dtype,
    ) -> Tensor:
        """The states; U_r and U_z are `gates`, *Shape:* (2 d, d), U is `candidate`, *Shape:* (d, d)."""
        start, inputs = start.detach().contiguous(), inputs.detach().contiguous()
        gates, candidate = gates.detach().to(dtype), candidate.detach().to(dtype)
        levels, d = _levels(parents, dtype), start.shape[1]
        states, *of_nodes = (start.new_empty(len(inputs), d) for _ in range(4))
        heads = _room(levels[-1].head_rows.stop, d, dtype)
        resets = _room(levels[-1].node_rows.stop, d, dtype)
        before, x, h, r, z, g = (part.numpy() for part in (start, inputs, states, *of_nodes))
        for level in levels:
            nodes, parents_of, firsts = level.nodes, level.parents, level.firsts
            head_rows, reset_rows = heads[level.head_rows], resets[level.node_rows]
            _take_heads(before, parents_of, firsts, numpy_numbers(head_rows))
            products = numpy_numbers(head_rows @ gates.T)
            rows = numpy_numbers(reset_rows)
            _open_gates(before, parents_of, firsts, x[nodes], products, r[nodes], z[nodes], rows)
            products = numpy_numbers(reset_rows @ candidate.T)
            _next_states(before, parents_of, x[nodes], products, z[nodes], g[nodes], h[nodes])
            before = h[nodes]
        ctx.save_for_backward(start, states, gates, candidate, *of_nodes, heads, resets)
        ctx.levels = levels
        return states

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients with respect to the start, the inputs and both weights."""
        start, states, gates, candidate, *of_nodes, heads, resets = ctx.saved_tensors
        levels, d, dtype = ctx.levels, states.shape[1], gates.dtype
        by_states = outputs[0].clone(memory_format=torch.contiguous_format)
        by_start, by_inputs = torch.zeros_like(start), start.new_empty(len(states), 3 * d)
        by_gates, by_candidates = _room(len(heads), 2 * d, dtype), _room(len(resets), d, dtype)
        h, r, z, g = (part.numpy() for part in (states, *of_nodes))
        by_h, by_x = by_states.numpy(), by_inputs.numpy()
        places = [level.nodes for level in levels[:-1]]
        befores = [start.numpy(), *(h[nodes] for nodes in places)]
        by_befores = [by_start.numpy(), *(by_h[nodes] for nodes in places)]
        for level, before, by_before in reversed([*zip(levels, befores, by_befores, strict=True)]):
            nodes, parents, firsts = level.nodes, level.parents, level.firsts
            rows, head_rows = by_candidates[level.node_rows], by_gates[level.head_rows]
            _by_candidate(by_h[nodes], z[nodes], g[nodes], by_x[nodes], numpy_numbers(rows))
            _by_gates(
                before,
                parents,
                firsts,
                numpy_numbers(rows @ candidate),
                by_h[nodes],
                r[nodes],
                z[nodes],
                g[nodes],
                by_x[nodes],
                numpy_numbers(head_rows),
                by_before,
            )
            _add_to_heads(parents, firsts, numpy_numbers(head_rows @ gates), by_before)
        by_weights = (by_gates.T @ heads).float(), (by_candidates.T @ resets).float()
        return by_start, by_inputs, *by_weights, None, None


def _room(n_rows: int, width: int, dtype: torch.dtype) -> Tensor:
    """Rows for a product over all levels; the padding after the nodes of a level is 0."""
    n_rows = n_narrow_rows(n_rows, dtype)
    make = torch.zeros if dtype == torch.bfloat16 else torch.empty
    return make(n_rows, width, dtype=dtype)


@njit(nogil=True)
def _take_heads(before: Floats, parents: Ints, firsts: Ints, heads: Numbers) -> None:
    """Copy the states of the heads from those of the level before, (any, d)."""
    for head in range(len(firsts) - 1):
        row = before[parents[firsts[head]]]
        for k in range(len(row)):
            heads[head, k] = narrowed(row[k], heads[head, k])


@njit(nogil=True, fastmath=True, error_model="numpy")
def _open_gates(
    before: Floats,
    parents: Ints,
    firsts: Ints,
    inputs: Floats,
    products: Numbers,
    reset: Floats,
    update: Floats,
    resets: Numbers,
) -> None:
    """Compute r, z and r h from the products U_r h and U_z h of the heads, (n_heads or more, 2 d)."""
    d = before.shape[1]
    for head in range(len(firsts) - 1):
        hidden = before[parents[firsts[head]]]
        for node in range(firsts[head], firsts[head + 1]):
            for k in range(d):
                gate = sigmoid(inputs[node, k] + widened(products[head, k]))
                reset[node, k] = gate
                resets[node, k] = narrowed(gate * hidden[k], resets[node, k])
            for k in range(d):
                update[node, k] = sigmoid(inputs[node, d + k] + widened(products[head, d + k]))


@njit(nogil=True, fastmath=True, error_model="numpy")
def _next_states(
    before: Floats,
    parents: Ints,
    inputs: Floats,
    products: Numbers,
    update: Floats,
    candidate: Floats,
    states: Floats,
) -> None:
    """Compute g and the new states from the products U (r h), (n or more, d)."""
    n_nodes, d = states.shape
    for node in range(n_nodes):
        hidden = before[parents[node]]
        for k in range(d):
            value = tanh(inputs[node, 2 * d + k] + widened(products[node, k]))
            candidate[node, k] = value
            states[node, k] = value + update[node, k] * (hidden[k] - value)


@njit(nogil=True, fastmath=True, error_model="numpy")
def _by_candidate(
    by_states: Floats, update: Floats, candidate: Floats, by_inputs: Floats, rows: Numbers
) -> None:
    """Write the gradient by c + U (r h) to the last third of that by the inputs and to rows of a product."""
    n_nodes, d = by_states.shape
    one = np.float32(1.0)
    for node in range(n_nodes):
        for k in range(d):
            value = candidate[node, k]
            value = by_states[node, k] * (one - update[node, k]) * (one - value * value)
            by_inputs[node, 2 * d + k] = value
            rows[node, k] = narrowed(value, rows[node, k])


@njit(nogil=True, fastmath=True, error_model="numpy")
def _by_gates(
    before: Floats,
    parents: Ints,
    firsts: Ints,
    products: Numbers,
    by_states: Floats,
    reset: Floats,
    update: Floats,
    candidate: Floats,
    by_inputs: Floats,
    rows: Numbers,
    by_before: Floats,
) -> None:
    """Compute the gradient by a + U_r h and b + U_z h from that by r h, the products, (n or more, d).

    It is written to the first two thirds of the gradient by the inputs and, summed over the children of each
    head, to rows of a product, (n_heads or more, 2 d). The terms without a product are added to the gradient
    by the states before.
    """
    d = before.shape[1]
    one = np.float32(1.0)
    sums = np.empty((2, d), np.float32)
    for head in range(len(firsts) - 1):
        parent = parents[firsts[head]]
        hidden, by_hidden = before[parent], by_before[parent]
        sums[:] = np.float32(0.0)
        for node in range(firsts[head], firsts[head + 1]):
            for k in range(d):
                by_state, by_reset = by_states[node, k], widened(products[node, k])
                r, z = reset[node, k], update[node, k]
                by_r = by_reset * hidden[k] * r * (one - r)
                by_z = by_state * (hidden[k] - candidate[node, k]) * z * (one - z)
                by_inputs[node, k] = by_r
                by_inputs[node, d + k] = by_z
                sums[0, k] += by_r
                sums[1, k] += by_z
                by_hidden[k] += by_state * z + by_reset * r
        for k in range(d):
            rows[head, k] = narrowed(sums[0, k], rows[head, k])
            rows[head, d + k] = narrowed(sums[1, k], rows[head, d + k])


@njit(nogil=True)
def _add_to_heads(parents: Ints, firsts: Ints, products: Numbers, by_before: Floats) -> None:
    """Add the rows of a product, (n_heads or more, d), to the gradient by the states before."""
    for head in range(len(firsts) - 1):
        by_hidden = by_before[parents[firsts[head]]]
        for k in range(len(by_hidden)):
            by_hidden[k] += widened(products[head, k])
