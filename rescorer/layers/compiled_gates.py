"""What a gated unit computes around its products, in compiled loops: each number is read and written once.

PyTorch makes a pass over the memory for each operation, which beside fast products is a tenth of a step. There
are no gradients, so this is for trained units.
"""

from __future__ import annotations

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.layers.float_bits import sigmoid, tanh
from rescorer.layers.units import GatedCarried, GatedState, GatedUnit


class CompiledGatedUnit(GatedUnit):
    """A trained gated unit on a CPU; it is not trained further.

    Args:
        unit: the trained one, whose layers are taken.
    """

    def __init__(self, unit: GatedUnit) -> None:
        nn.Module.__init__(self)
        self.hidden_width = self.state_width = unit.hidden_width
        self.input = unit.input
        self.recurrent_gates = unit.recurrent_gates
        self.recurrent_candidate = unit.recurrent_candidate

    def step(self, carried: GatedCarried, inputs: Tensor) -> GatedState:
        """See `GatedUnit.step`."""
        known = inputs.numpy(), carried.gates.numpy(), carried.hidden.numpy()
        reset, result = torch.empty_like(carried.hidden), torch.empty_like(carried.hidden)
        _reset(*known, reset.numpy())
        _next_hidden(*known, self.recurrent_candidate(reset).numpy(), result.numpy())
        return GatedState(result)


def compile_gates(network: nn.Module) -> None:
    """Replace the gated units of a network by compiled ones, if it is on a CPU."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is GatedUnit and child.input.weight.device.type == "cpu":
                setattr(module, name, CompiledGatedUnit(child))


def sum_of_rows(table: Tensor, chosen: Tensor, other: Tensor, chosen_of_other: Tensor) -> Tensor:
    """The sum of a row of one tensor and a row of another one.

    Args:
        table: float32, *Shape:* (any, width).
        chosen: rows of it; -1 is the last one, *Shape:* (n,).
        other: float32, *Shape:* (any, width).
        chosen_of_other: rows of it, *Shape:* (n,).

    Returns:
        *Shape:* (n, width).
    """
    if table.device.type != "cpu":
        return table[chosen] + other[chosen_of_other]
    result = torch.empty(len(chosen), table.shape[1])
    given = (tensor.numpy() for tensor in (table, chosen, other, chosen_of_other))
    _add_rows(*given, result.numpy())
    return result


@numba.njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
def _reset(
    inputs: NDArray[np.float32],
    gates: NDArray[np.float32],
    hidden: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """R h; see `GatedUnit.step` for the shapes."""
    for row in range(hidden.shape[0]):
        for k in range(hidden.shape[1]):
            out[row, k] = sigmoid(inputs[row, k] + gates[row, k]) * hidden[row, k]


@numba.njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
def _next_hidden(
    inputs: NDArray[np.float32],
    gates: NDArray[np.float32],
    hidden: NDArray[np.float32],
    products: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Z h + (1 - z) tanh(W x + U (r h)), with U (r h) the products, *Shape:* (n, d)."""
    d = hidden.shape[1]
    for row in range(hidden.shape[0]):
        for k in range(d):
            update = sigmoid(inputs[row, d + k] + gates[row, d + k])
            candidate = tanh(inputs[row, 2 * d + k] + products[row, k])
            out[row, k] = candidate + update * (hidden[row, k] - candidate)


@numba.njit(nogil=True, cache=True)
def _add_rows(
    table: NDArray[np.float32],
    chosen: NDArray[np.int64],
    other: NDArray[np.float32],
    chosen_of_other: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """See `sum_of_rows`."""
    for row in range(out.shape[0]):
        one, two = table[chosen[row]], other[chosen_of_other[row]]
        for k in range(out.shape[1]):
            out[row, k] = one[k] + two[k]
