"""Recurrent units: one step from a state and an input to the next state; initial weights.

A step has two halves: `carry` depends on the state alone and is computed once for all the words that follow a
prefix; `inputs` depends on the words alone and is computed for many words at once. Initial weights are drawn
in the order of a network's layers: another order is another training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from rescorer.layers.step_linear import StepLinear

UnitName = Literal["gated", "lstm"]
State = TypeVar("State", bound=tuple[Tensor, ...])
Carried = TypeVar("Carried", bound=tuple[Tensor, ...])
# Standard deviation of word vectors and output weights where Adam trains them.
WORD_DEVIATION = 0.1


class Unit(Protocol[State, Carried]):
    """A recurrent unit; states are named tuples of tensors with one row a state, `hidden` the first.

    Attributes:
        state_width: width of all fields of a state together.
        recurrent_layers: names of the layers whose products depend on the state.
    """

    state_width: int
    recurrent_layers: tuple[str, ...]

    @property
    def input(self) -> nn.Linear:
        """The layer of `inputs`."""

    def reset_bias(self) -> None:
        """Set the bias to its initial value."""

    def start(self, n_rows: int) -> State:
        """The states before the first word, all 0."""

    def state(self, fields: Tensor) -> State:
        """States from their fields side by side, *Shape:* (n, state_width)."""

    def inputs(self, x: Tensor) -> Tensor:
        """Products of the inputs with their biases, *Shape:* (n, input_width) -> (n, any)."""

    def carry(self, state: State) -> Carried:
        """The states with their products."""

    def step(self, carried: Carried, inputs: Tensor) -> State:
        """The next states, from n states with their products and the result of `inputs` for n words."""


class GatedState(NamedTuple):
    """State of a gated unit: h, *Shape:* (n, d)."""

    hidden: Tensor


class GatedCarried(NamedTuple):
    """State of a gated unit, h, (n, d), with its products U_r h and U_z h side by side, *Shape:* (n, 2 d)."""

    hidden: Tensor
    gates: Tensor


class GatedUnit(nn.Module):
    """h_t = z h_{t-1} + (1 - z) tanh(W x + U (r h_{t-1})), the reset gate before the product.

    Cho et al. (2014), section 2.3, equations 5 to 8. torch.nn.GRU resets after the product (the first arXiv
    version), so its weights cannot be used. d, the width of h, is `hidden_width`.
    """

    recurrent_layers: tuple[str, ...] = ("recurrent_gates", "recurrent_candidate")

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.hidden_width = self.state_width = hidden_width
        self.input = StepLinear(input_width, 3 * hidden_width)
        self.recurrent_gates = StepLinear(hidden_width, 2 * hidden_width, bias=False)
        self.recurrent_candidate = StepLinear(hidden_width, hidden_width, bias=False)

    def reset_bias(self) -> None:
        """0 everywhere."""
        nn.init.zeros_(self.input.bias)

    def start(self, n_rows: int) -> GatedState:
        """h_0 = 0, *Shape:* (n_rows, d)."""
        bias: Tensor = self.input.bias
        return GatedState(bias.new_zeros(n_rows, self.hidden_width))

    def state(self, fields: Tensor) -> GatedState:
        """The fields are h, *Shape:* (n, d)."""
        return GatedState(fields)

    def inputs(self, x: Tensor) -> Tensor:
        """W_r x, W_z x and W x with their biases, side by side: *Shape:* (n, input) -> (n, 3 d)."""
        products: Tensor = self.input(x)
        return products

    def carry(self, state: GatedState) -> GatedCarried:
        """U_r h and U_z h."""
        return GatedCarried(state.hidden, self.recurrent_gates(state.hidden))

    def step(self, carried: GatedCarried, inputs: Tensor) -> GatedState:
        """One step from h_{t-1}; `inputs` are of reset gate, update gate and candidate, *Shape:* (n, 3 d)."""
        d = self.hidden_width
        # The gradient of a split is one concatenation, that of slices is a tensor of zeros for each.
        gate_inputs, candidate_inputs = torch.split(inputs, [2 * d, d], dim=1)
        reset, update = torch.sigmoid(gate_inputs + carried.gates).chunk(2, dim=1)
        candidate = self.recurrent_candidate(reset * carried.hidden)
        candidate = torch.tanh(candidate_inputs + candidate)
        return GatedState(torch.lerp(candidate, carried.hidden, update))


class LstmState(NamedTuple):
    """State of an LSTM: h and c, *Shape:* (n, d) each."""

    hidden: Tensor
    cell: Tensor


class LstmCarried(NamedTuple):
    """State of an LSTM, c, (n, d), with its products U_i h, U_f h, U_g h and U_o h side by side, (n, 4 d)."""

    cell: Tensor
    products: Tensor


class LstmUnit(nn.Module):
    """c_t = f c_{t-1} + i tanh(W_g x + U_g h_{t-1}), h_t = o tanh(c_t), without peepholes.

    Hochreiter and Schmidhuber (1997) with the forget gate of Gers et al. (2000), as in Zaremba et al. (2014),
    section 3, equations 1 to 6. The blocks have the order of torch.nn.LSTM: i, f, g, o. d, the width of h and
    of c, is `hidden_width`.
    """

    recurrent_layers: tuple[str, ...] = ("recurrent",)

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.hidden_width = hidden_width
        self.state_width = 2 * hidden_width
        self.input = StepLinear(input_width, 4 * hidden_width)
        self.recurrent = StepLinear(hidden_width, 4 * hidden_width, bias=False)

    def reset_bias(self) -> None:
        """1 for the forget gates, so that a cell keeps its content at first; 0 for the others.

        Jozefowicz et al. (2015), section 4.
        """
        d = self.hidden_width
        with torch.no_grad():
            nn.init.zeros_(self.input.bias)
            nn.init.ones_(self.input.bias[d : 2 * d])

    def start(self, n_rows: int) -> LstmState:
        """h_0 = c_0 = 0, *Shape:* (n_rows, d) each."""
        bias: Tensor = self.input.bias
        zeros = bias.new_zeros(n_rows, self.hidden_width)
        return LstmState(zeros, zeros)

    def state(self, fields: Tensor) -> LstmState:
        """The halves h and c of *Shape:* (n, 2 d)."""
        return LstmState(*fields.chunk(2, dim=1))

    def inputs(self, x: Tensor) -> Tensor:
        """W_i x, W_f x, W_g x and W_o x with their biases: *Shape:* (n, input) -> (n, 4 d)."""
        products: Tensor = self.input(x)
        return products

    def carry(self, state: LstmState) -> LstmCarried:
        """The products of h."""
        return LstmCarried(state.cell, self.recurrent(state.hidden))

    def step(self, carried: LstmCarried, inputs: Tensor) -> LstmState:
        """One step; `inputs` are of input gate, forget gate, candidate and output gate, *Shape:* (n, 4 d)."""
        enter, keep, candidate, leave = (inputs + carried.products).chunk(4, dim=1)
        kept = torch.sigmoid(keep) * carried.cell
        cell = torch.addcmul(kept, torch.sigmoid(enter), torch.tanh(candidate))
        return LstmState(torch.sigmoid(leave) * torch.tanh(cell), cell)


UNITS: dict[UnitName, type[GatedUnit] | type[LstmUnit]] = {"gated": GatedUnit, "lstm": LstmUnit}


def new_unit(name: UnitName, input_width: int, hidden_width: int) -> Unit[Any, Any]:
    """The unit with this name, a PyTorch module; each unit has its own state tuple."""
    return UNITS[name](input_width, hidden_width)


def draw_weights(network: nn.Module, draw: Callable[[str, nn.Parameter], None]) -> None:
    """Set biases to 0, draw square blocks of recurrent matrices orthogonal, and call `draw` for the others."""
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif "recurrent" in name:
            for block in torch.split(parameter.data, parameter.shape[1]):
                nn.init.orthogonal_(block)
        else:
            draw(name, parameter)


def scale_by_fan_in(name: str, parameter: nn.Parameter) -> None:
    """Draw a matrix as Glorot & Bengio (2010); word vectors, outputs and vectors from N(0, 0.1^2)."""
    if "embedding" in name or name.startswith("output") or parameter.dim() == 1:
        nn.init.normal_(parameter, std=WORD_DEVIATION)
    else:
        nn.init.xavier_uniform_(parameter)
