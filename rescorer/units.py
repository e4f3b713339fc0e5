"""Recurrent units: one step from a state and an input to the next state.

A step has two halves. What depends on the state alone is computed by `carry`, once for all the words
that follow a prefix; what depends on the words alone by `inputs`, for many words at once.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from rescorer.softmax.step_linear import StepLinear

State = TypeVar("State", bound=tuple[Tensor, ...])
Carried = TypeVar("Carried", bound=tuple[Tensor, ...])


class Unit(Protocol[State, Carried]):
    """A recurrent unit; states are named tuples of tensors with one row a state."""

    def start(self, n_rows: int) -> State:
        """The states before the first word, all 0."""

    def inputs(self, x: Tensor) -> Tensor:
        """Products of the inputs with their biases, *Shape:* (n, input_width) -> (n, any)."""

    def carry(self, state: State) -> Carried:
        """The states with their products."""

    def step(self, carried: Carried, inputs: Tensor) -> State:
        """The next states.

        Args:
            carried: n states with their products.
            inputs: what `inputs` gave for n words.
        """


class GatedState(NamedTuple):
    """State of a gated unit.

    Attributes:
        hidden: h, *Shape:* (n, d).
    """

    hidden: Tensor


class GatedCarried(NamedTuple):
    """State of a gated unit with its products.

    Attributes:
        hidden: h, *Shape:* (n, d).
        gates: U_r h and U_z h side by side, *Shape:* (n, 2 d).
    """

    hidden: Tensor
    gates: Tensor


class GatedUnit(nn.Module):
    """h_t = z h_{t-1} + (1 - z) tanh(W x + U (r h_{t-1})), the reset gate before the product.

    Cho et al. (2014), section 2.3, equations 5 to 8. torch.nn.GRU resets after the product (the first
    arXiv version), so its weights cannot be used.

    Args:
        input_width: width of x.
        hidden_width: d, width of h.
    """

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.hidden_width = hidden_width
        self.input = StepLinear(input_width, 3 * hidden_width)
        self.recurrent_gates = StepLinear(hidden_width, 2 * hidden_width, bias=False)
        self.recurrent_candidate = StepLinear(hidden_width, hidden_width, bias=False)

    def start(self, n_rows: int) -> GatedState:
        """h_0 = 0, *Shape:* (n_rows, d)."""
        bias: Tensor = self.input.bias
        return GatedState(bias.new_zeros(n_rows, self.hidden_width))

    def inputs(self, x: Tensor) -> Tensor:
        """W_r x, W_z x and W x with their biases, side by side: *Shape:* (n, input) -> (n, 3 d)."""
        products: Tensor = self.input(x)
        return products

    def carry(self, state: GatedState) -> GatedCarried:
        """U_r h and U_z h."""
        return GatedCarried(state.hidden, self.recurrent_gates(state.hidden))

    def step(self, carried: GatedCarried, inputs: Tensor) -> GatedState:
        """One step.

        Args:
            carried: of h_{t-1}.
            inputs: pre-activations of reset gate, update gate and candidate, *Shape:* (n, 3 d).
        """
        d = self.hidden_width
        # The gradient of a split is one concatenation, that of slices is a tensor of zeros for each.
        gate_inputs, candidate_inputs = torch.split(inputs, [2 * d, d], dim=1)
        reset, update = torch.sigmoid(gate_inputs + carried.gates).chunk(2, dim=1)
        candidate = self.recurrent_candidate(reset * carried.hidden)
        candidate = torch.tanh(candidate_inputs + candidate)
        return GatedState(torch.lerp(candidate, carried.hidden, update))
