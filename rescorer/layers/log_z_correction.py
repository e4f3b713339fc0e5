"""The linear part of log Z, taken out of a trained output layer.

If v is taken from each word's weights and c from each word's bias, all logits of a row h fall by v h + c, and
so does log Z: no probability changes. With v and c from the least squares of log Z over h, the logits alone
come nearer to log-probabilities than training on log^2 Z brings them in the same time.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from rescorer.layers.log_sum_exp import log_sum_exp

# Of the mean square of a unit: keeps units that are always 0 from having any coefficient.
RIDGE = 1e-6


@torch.no_grad()
def flatten_log_z(output: nn.Linear, parts: Iterable[Tensor]) -> None:
    """Bring log Z of an output layer near 0, in place.

    Args:
        output: the trained layer.
        parts: rows that it may see, *Shape:* (n, w) each; without any the layer stays as it is.
    """
    width = output.in_features + 1
    squares, products = torch.zeros(width, width).double(), torch.zeros(width).double()
    for rows in parts:
        log_z = log_sum_exp(rows, output.weight, output.bias).double().cpu()
        known = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1).double().cpu()
        squares += known.T @ known
        products += known.T @ log_z
    if not products.any():
        return
    squares.diagonal().add_(RIDGE * squares.diagonal().mean())
    coefficients = torch.linalg.solve(squares, products).to(output.weight)
    output.weight.sub_(coefficients[:-1])
    output.bias.sub_(coefficients[-1])
