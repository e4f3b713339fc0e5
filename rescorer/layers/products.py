"""Layers made ready for scoring: products in a narrow type whose results are float32 again, or packed ones."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rescorer.layers.narrow_rows import narrow_rows
from rescorer.layers.packed_linear import PackedLinear, is_faster

Network = TypeVar("Network", bound=nn.Module)


def product(rows: Tensor, weight: Tensor) -> Tensor:
    """The product rows weight^T in the weight's type, returned as float32.

    Args:
        rows: *Shape:* (n, width).
        weight: *Shape:* (n_out, width).

    Returns:
        *Shape:* (n, n_out).
    """
    return linear(narrow_rows(rows, weight.dtype), weight)[: len(rows)].float()


def rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float32 values as a type has them."""
    return values.to(dtype).float()


class NarrowLinear(nn.Linear):
    """A trained layer whose product is computed in another type; it is not trained further.

    Args:
        layer: the trained one.
        dtype: of the product; the bias is added in float32.
    """

    def __init__(self, layer: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__(layer.in_features, layer.out_features, bias=False, device="meta")
        self.weight = nn.Parameter(layer.weight.detach().to(dtype), requires_grad=False)
        self.addend = None if layer.bias is None else layer.bias.detach()

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output, *Shape:* (n, in_features) -> (n, out_features)."""
        result = product(rows, self.weight)
        return result if self.addend is None else result + self.addend


def narrow_layers(module: object, names: Iterable[str], dtype: torch.dtype) -> None:
    """Replace each named layer of a module by a `NarrowLinear`, or a `PackedLinear` where that is faster."""
    for name in names:
        layer: nn.Linear = getattr(module, name)
        packs = dtype == torch.float32 and is_faster(layer.weight)
        setattr(module, name, PackedLinear(layer) if packs else NarrowLinear(layer, dtype))


def with_same_weights(network: Network) -> Network:
    """A copy of a trained network whose layers can be replaced; the weights are shared, not copied."""
    return copy.deepcopy(network, {id(weight): weight for weight in network.parameters()})
