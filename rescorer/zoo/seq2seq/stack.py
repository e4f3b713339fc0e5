"""Layers of LSTMs as one recurrent unit: each layer reads the states of the one below."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rescorer.layers.units import LstmCarried, LstmState, LstmUnit


class LstmStack(nn.Module):
    """L layers without peepholes; h, c and products of all layers are side by side, the lowest first.

    Args:
        input_width: width of x.
        hidden_width: d, of each layer.
        n_layers: L.
        dropout: share of what goes from one layer to the next that training leaves out.
    """

    def __init__(self, input_width: int, hidden_width: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.hidden_width = hidden_width
        self.state_width = 2 * n_layers * hidden_width
        self.recurrent_layers = tuple(f"layers.{number}.recurrent" for number in range(n_layers))
        self.dropout = nn.Dropout(dropout)
        widths = [input_width, *[hidden_width] * (n_layers - 1)]
        self.layers = nn.ModuleList(LstmUnit(width, hidden_width) for width in widths)

    @property
    def units(self) -> list[LstmUnit]:
        """The layers, the lowest first."""
        return [layer for layer in self.layers if isinstance(layer, LstmUnit)]

    @property
    def input(self) -> nn.Linear:
        """The layer of `inputs`."""
        return self.units[0].input

    def reset_bias(self) -> None:
        """See `LstmUnit.reset_bias`."""
        for unit in self.units:
            unit.reset_bias()

    def state(self, fields: Tensor) -> LstmState:
        """The halves h and c of *Shape:* (n, 2 L d)."""
        return LstmState(*fields.chunk(2, dim=1))

    def start(self, n_rows: int) -> LstmState:
        """h_0 = c_0 = 0, *Shape:* (n_rows, L d) each."""
        bias: Tensor = self.units[0].input.bias
        zeros = bias.new_zeros(n_rows, len(self.layers) * self.hidden_width)
        return LstmState(zeros, zeros)

    def inputs(self, x: Tensor) -> Tensor:
        """Those of the lowest layer, *Shape:* (n, input_width) -> (n, 4 d)."""
        return self.units[0].inputs(x)

    def carry(self, state: LstmState) -> LstmCarried:
        """The products of each layer's h, *Shape:* (n, 4 L d), and all c."""
        parts = torch.split(state.hidden, self.hidden_width, dim=1)
        products = [unit.recurrent(part) for unit, part in zip(self.units, parts, strict=True)]
        return LstmCarried(state.cell, torch.cat(products, dim=1))

    def step(self, carried: LstmCarried, inputs: Tensor) -> LstmState:
        """One step of all layers.

        Args:
            carried: of the states before.
            inputs: of the lowest layer, *Shape:* (n, 4 d).
        """
        d = self.hidden_width
        states: list[LstmState] = []
        cells = torch.split(carried.cell, d, dim=1)
        products = torch.split(carried.products, 4 * d, dim=1)
        for unit, cell, product in zip(self.units, cells, products, strict=True):
            if states:
                inputs = unit.inputs(self.dropout(states[-1].hidden))
            states.append(unit.step(LstmCarried(cell, product), inputs))
        return LstmState(*(torch.cat(parts, dim=1) for parts in zip(*states, strict=True)))
