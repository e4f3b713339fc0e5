"""The gated hidden unit of Cho et al. (2014), section 2.3, equations 5 to 8."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GatedUnit(nn.Module):
    """h_t = z h_{t-1} + (1 - z) tanh(W x + U (r h_{t-1})), the reset gate before the product.

    torch.nn.GRU resets after the product (the first arXiv version), so its weights cannot be used.

    Args:
        input_width: width of x.
        hidden_width: width of h.
    """

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.hidden_width = hidden_width
        self.input = nn.Linear(input_width, 3 * hidden_width)
        self.recurrent_gates = nn.Linear(hidden_width, 2 * hidden_width, bias=False)
        self.recurrent_candidate = nn.Linear(hidden_width, hidden_width, bias=False)

    def inputs(self, x: Tensor) -> Tensor:
        """W_r x, W_z x and W x with their biases, side by side: *Shape:* (n, input) -> (n, 3 d)."""
        products: Tensor = self.input(x)
        return products

    def step(self, hidden: Tensor, inputs: Tensor) -> Tensor:
        """One step.

        Args:
            hidden: h_{t-1}, *Shape:* (n, d).
            inputs: pre-activations of reset gate, update gate and candidate, *Shape:* (n, 3 d).

        Returns:
            h_t, *Shape:* (n, d).
        """
        d = self.hidden_width
        gates = torch.sigmoid(inputs[:, : 2 * d] + self.recurrent_gates(hidden))
        reset, update = gates[:, :d], gates[:, d:]
        candidate = torch.tanh(inputs[:, 2 * d :] + self.recurrent_candidate(reset * hidden))
        return torch.lerp(candidate, hidden, update)
