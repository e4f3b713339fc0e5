"""Gated units and maxout in compiled loops, which read and write each number once.

PyTorch makes one pass over the memory for each operation, a tenth of a step when the products are fast. The
loops have no gradients: they are for trained networks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from moses_bridge.base.compiled.kept_code import njit
from rescorer.layers.float_bits import narrowed, sigmoid, tanh, widened
from rescorer.layers.products import (
    Floats,
    Ints,
    Numbers,
    narrow_product,
    narrow_rows,
    numpy_numbers,
    room_for_rows,
)
from rescorer.layers.units import GatedCarried, GatedState, GatedUnit

# Each unit of a readout is the maximum of two: Cho et al. (2014), appendix A.
MAXOUT_PIECES = 2


class CompiledGatedUnit(GatedUnit):
    """A trained gated unit on a CPU, sharing the layers of `unit`; it is not trained further."""

    def __init__(self, unit: GatedUnit) -> None:
        nn.Module.__init__(self)
        self.hidden_width = self.state_width = unit.hidden_width
        self.input = unit.input
        self.recurrent_gates = unit.recurrent_gates
        self.recurrent_candidate = unit.recurrent_candidate

    def carry(self, state: GatedState) -> GatedCarried:
        """See `GatedUnit.carry`; the products keep their type."""
        rows = narrow_rows(state.hidden, self.recurrent_gates.weight.dtype)
        gates = narrow_product(self.recurrent_gates, rows)[: len(state.hidden)]
        return GatedCarried(state.hidden, gates)

    def step(self, carried: GatedCarried, inputs: Tensor) -> GatedState:
        """See `GatedUnit.step`."""
        known = inputs.numpy(), numpy_numbers(carried.gates), carried.hidden.numpy()
        reset = room_for_rows(carried.hidden, self.recurrent_candidate.weight.dtype)
        _reset(*known, numpy_numbers(reset))
        products, result = (
            narrow_product(self.recurrent_candidate, reset),
            torch.empty_like(carried.hidden),
        )
        _next_hidden(*known, numpy_numbers(products), result.numpy())
        return GatedState(result)


def compile_gates(network: nn.Module) -> None:
    """Replace the gated units of a network by compiled ones, if it is on a CPU."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is GatedUnit and child.input.weight.device.type == "cpu":
                setattr(module, name, CompiledGatedUnit(child))


def sum_of_rows(table: Tensor, chosen: Tensor, other: Tensor, chosen_of_other: Tensor) -> Tensor:
    """Add chosen rows of one float32 table to those of another one, *Shape:* (n, width); -1 is the last row."""
    if table.device.type != "cpu":
        return table[chosen] + other[chosen_of_other]
    result = torch.empty(len(chosen), table.shape[1])
    given = (tensor.numpy() for tensor in (table, chosen, other, chosen_of_other))
    _add_rows(*given, result.numpy())
    return result


@njit(nogil=True, fastmath=True, error_model="numpy")
def _reset(inputs: Floats, gates: Numbers, hidden: Floats, out: Numbers) -> None:
    """R h; see `GatedUnit.step` for the shapes."""
    for row in range(hidden.shape[0]):
        for k in range(hidden.shape[1]):
            value = sigmoid(inputs[row, k] + widened(gates[row, k])) * hidden[row, k]
            out[row, k] = narrowed(value, out[row, k])


@njit(nogil=True, fastmath=True, error_model="numpy")
def _next_hidden(
    inputs: Floats, gates: Numbers, hidden: Floats, products: Numbers, out: Floats
) -> None:
    """Z h + (1 - z) tanh(W x + U (r h)), with U (r h) the products, *Shape:* (n, d)."""
    d = hidden.shape[1]
    for row in range(hidden.shape[0]):
        for k in range(d):
            update = sigmoid(inputs[row, d + k] + widened(gates[row, d + k]))
            candidate = tanh(inputs[row, 2 * d + k] + widened(products[row, k]))
            out[row, k] = candidate + update * (hidden[row, k] - candidate)


@njit(nogil=True)
def _add_rows(
    table: Floats, chosen: Ints, other: Floats, chosen_of_other: Ints, out: Floats
) -> None:
    for row in range(out.shape[0]):
        one, two = table[chosen[row]], other[chosen_of_other[row]]
        for k in range(out.shape[1]):
            out[row, k] = one[k] + two[k]


def maxout(pieces: Tensor) -> Tensor:
    """The maximum of each two neighbours, *Shape:* (n, 2 m) -> (n, m)."""
    width = pieces.shape[1] // MAXOUT_PIECES
    return pieces.view(len(pieces), width, MAXOUT_PIECES).amax(dim=2)


def maxout_of_sum(products: Tensor, addends: Tensor) -> Tensor:
    """The maximum of each two neighbours of a sum, in one pass and without gradients, *Shape:* (n or more, m).

    Products, (n or more, 2 m), and result have the zero rows of `narrow_rows`; addends are float32, (n, 2 m).
    """
    firsts = addends.view(len(addends), addends.shape[1] // MAXOUT_PIECES, MAXOUT_PIECES)[..., 0]
    result = room_for_rows(firsts, products.dtype)
    _maxout_of_sum(numpy_numbers(products), addends.numpy(), numpy_numbers(result))
    return result


@njit(nogil=True, fastmath=True, error_model="numpy")
def _maxout_of_sum(products: Numbers, addends: Floats, out: Numbers) -> None:
    for row in range(addends.shape[0]):
        for k in range(out.shape[1]):
            one = widened(products[row, 2 * k]) + addends[row, 2 * k]
            other = widened(products[row, 2 * k + 1]) + addends[row, 2 * k + 1]
            out[row, k] = narrowed(one if one > other else other, out[row, k])
