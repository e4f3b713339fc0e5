"""States of a gated unit over the levels of a tree, with gradients, on a GPU: few operations a level.

An update of some hundred phrase pairs keeps a GPU busy for 3 ms, while Python and autograd need ten times as
long to start its operations one by one. Here, as in `gated_levels`, all levels are one operation with its
gradient written out, and what PyTorch has in one kernel is one. No order of a sum changes from run to run.

Notation and equations are those of `gated_levels`; H heads: nodes with children, level by level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.layers.gated_levels import are_first_children
from rescorer.layers.units import GatedUnit


def has_device_levels(unit: object, inputs: Tensor) -> bool:
    """Whether `device_states` can compute the states of a unit from such inputs, and gradients are wanted."""
    on_device = inputs.device.type != "cpu" and inputs.dtype == torch.float32
    return type(unit) is GatedUnit and on_device and torch.is_grad_enabled()


def device_states(
    unit: GatedUnit, start: Tensor, parents: Sequence[NDArray[np.int64]], inputs: Tensor
) -> Tensor:
    """The states of all nodes of a tree; see `gated_levels.gated_states`, which has the same arguments."""
    gates, candidate = unit.recurrent_gates, unit.recurrent_candidate
    dtype = gates.shared_type or gates.weight.dtype
    states: Tensor = _DeviceStates.apply(  # type: ignore[no-untyped-call]
        start, inputs, gates.weight, candidate.weight, parents, dtype
    )
    return states


class _Level(NamedTuple):
    """The nodes of a level and their heads.

    Attributes:
        nodes: among all nodes.
        heads: among all heads.
        parents: of each node, in the level before, rising, *Shape:* (n,).
        head_parents: the heads in the level before, rising, *Shape:* (n_heads,).
        which: the head of each node, *Shape:* (n,).
        firsts: the first child of each head, and n at the end, *Shape:* (n_heads + 1,).
        places: the head that each state of the level before is, n_heads where it is none, *Shape:* (any,).
    """

    nodes: slice
    heads: slice
    parents: Tensor
    head_parents: Tensor
    which: Tensor
    firsts: Tensor
    places: Tensor


def _levels(
    parents: Sequence[NDArray[np.int64]], n_start: int, device: torch.device
) -> list[_Level]:
    """The levels; their numbers go to the device together, since each transfer is waited for."""
    slices, columns, node, head, n_before = [], list[NDArray[np.int64]](), 0, 0, n_start
    for of_nodes in parents:
        is_first = are_first_children(of_nodes)
        firsts = np.flatnonzero(is_first)
        places = np.full(n_before, len(firsts))
        places[of_nodes[firsts]] = np.arange(len(firsts))
        columns += [of_nodes, of_nodes[firsts], np.cumsum(is_first) - 1]
        columns += [np.append(firsts, len(of_nodes)), places]
        slices.append((slice(node, node + len(of_nodes)), slice(head, head + len(firsts))))
        node, head, n_before = node + len(of_nodes), head + len(firsts), len(of_nodes)
    numbers = torch.from_numpy(np.concatenate(columns)).to(device)
    parts = iter(torch.split(numbers, [*map(len, columns)]))
    return [_Level(*both, *(next(parts) for _ in range(5))) for both in slices]


class _DeviceStates(torch.autograd.Function):
    """See `device_states`."""

    @staticmethod
    def forward(
        ctx: Any,
        start: Tensor,
        inputs: Tensor,
        gates: Tensor,
        candidate: Tensor,
        parents: Sequence[NDArray[np.int64]],
        dtype: torch.dtype,
    ) -> Tensor:
        """The states; see `gated_levels` for the arguments."""
        levels, (n, d) = _levels(parents, len(start), start.device), (len(inputs), start.shape[1])
        gates, candidate = gates.to(dtype), candidate.to(dtype)
        states, before_nodes, candidates = (inputs.new_empty(n, d) for _ in range(3))
        both_gates = inputs.new_empty(n, 2 * d)
        heads = inputs.new_empty(levels[-1].heads.stop, d, dtype=dtype)
        resets = inputs.new_empty(n, d, dtype=dtype)
        gate_inputs, candidate_inputs = torch.split(inputs, [2 * d, d], dim=1)
        before = start
        for level in levels:
            nodes = level.nodes
            own_heads = heads[level.heads]
            own_heads.copy_(before.index_select(0, level.head_parents))
            parent_states, opened = before_nodes[nodes], both_gates[nodes]
            torch.index_select(before, 0, level.parents, out=parent_states)
            products = (own_heads @ gates.T).index_select(0, level.which)
            torch.sigmoid(gate_inputs[nodes] + products, out=opened)
            reset, update = opened.chunk(2, dim=1)
            torch.mul(reset, parent_states, out=resets[nodes])
            products = resets[nodes] @ candidate.T
            torch.tanh(candidate_inputs[nodes] + products, out=candidates[nodes])
            torch.lerp(candidates[nodes], parent_states, update, out=states[nodes])
            before = states[nodes]
        ctx.save_for_backward(gates, candidate, before_nodes, both_gates, candidates, heads, resets)
        ctx.levels, ctx.n_start = levels, len(start)
        return states

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients by the start, the inputs and both weights."""
        gates, candidate, before_nodes, both_gates, candidates, heads, resets = ctx.saved_tensors
        levels, (n, d), dtype = ctx.levels, candidates.shape, gates.dtype
        by_states = outputs[0].clone(memory_format=torch.contiguous_format)
        by_start, by_inputs = by_states.new_zeros(ctx.n_start, d), by_states.new_empty(n, 3 * d)
        by_products = by_states.new_empty(len(heads), 2 * d, dtype=dtype)
        by_befores = [by_start, *(by_states[level.nodes] for level in levels[:-1])]
        zeros = by_states.new_zeros(1, d)
        for level, by_before in reversed([*zip(levels, by_befores, strict=True)]):
            nodes = level.nodes
            by_state, parent_states, chosen = (
                by_states[nodes],
                before_nodes[nodes],
                candidates[nodes],
            )
            reset, update = both_gates[nodes].chunk(2, dim=1)
            by_reset, by_update, by_candidate = by_inputs[nodes].chunk(3, dim=1)
            _by_sigmoid(by_state * (parent_states - chosen), update, by_update)
            _by_tanh(torch.addcmul(by_state, by_state, update, value=-1), chosen, by_candidate)
            by_product = (by_candidate.to(dtype) @ candidate).to(by_state.dtype)
            _by_sigmoid(by_product * parent_states, reset, by_reset)
            by_parent = torch.addcmul(by_state * update, by_product, reset)
            sums = _sums_of_heads(torch.cat([by_reset, by_update, by_parent], dim=1), level.firsts)
            by_products[level.heads] = sums[:, : 2 * d]
            by_head = sums[:, 2 * d :] + by_products[level.heads] @ gates
            by_before += torch.cat([by_head, zeros]).index_select(0, level.places)
        by_gates = (by_products.T @ heads).to(by_states.dtype)
        by_candidates = (by_inputs[:, 2 * d :].to(dtype).T @ resets).to(by_states.dtype)
        return by_start, by_inputs, by_gates, by_candidates, None, None


def _by_sigmoid(by_output: Tensor, output: Tensor, out: Tensor) -> None:
    """The gradient by what the sigmoid was taken of, *Shape:* (n, d) each."""
    torch.ops.aten.sigmoid_backward.grad_input(by_output, output, grad_input=out)


def _by_tanh(by_output: Tensor, output: Tensor, out: Tensor) -> None:
    """The gradient by what the tanh was taken of, *Shape:* (n, d) each."""
    torch.ops.aten.tanh_backward.grad_input(by_output, output, grad_input=out)


def _sums_of_heads(rows: Tensor, firsts: Tensor) -> Tensor:
    """The sum of the rows of each head's children, *Shape:* (n, any) -> (n_heads, any)."""
    return torch.segment_reduce(rows, "sum", offsets=firsts, axis=0, unsafe=True)
