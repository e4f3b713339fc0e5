"""Layers made ready for scoring: products in a narrow type whose results are float32 again, or packed ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rescorer.layers import packed_linear
from rescorer.layers.narrow_rows import narrow_rows

Network = TypeVar("Network", bound=nn.Module)


def rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float32 values as a type has them."""
    return values.to(dtype).float()


class NarrowLinear(nn.Module):
    """A trained layer whose product is computed in another type; it is not trained further.

    Where oneDNN computes the products in bfloat16, the weights are laid out for it once, which changes no bit.

    Args:
        layer: the trained one.
        dtype: of the product; the bias is added in float32.
    """

    def __init__(self, layer: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight = layer.weight.detach().to(dtype)
        self.addend = None if layer.bias is None else layer.bias.detach()
        self._product: Callable[[Tensor, Tensor], Tensor] = linear
        if packed_linear.is_onednn_anyway(self.weight):
            self.weight = packed_linear.packed(self.weight)
            self._product = packed_linear.product

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output in float32, *Shape:* (n, in_features) -> (n, out_features)."""
        result = self.narrow(narrow_rows(rows, self.weight.dtype))[: len(rows)].float()
        return result if self.addend is None else result + self.addend

    def narrow(self, rows: Tensor) -> Tensor:
        """The product without the bias; see `narrow_product`."""
        return self._product(rows, self.weight)


def narrow_product(layer: nn.Module, rows: Tensor) -> Tensor:
    """What a layer without a bias makes of rows that `narrow_rows` gave, in the type of its weight."""
    result: Tensor = layer.narrow(rows) if isinstance(layer, NarrowLinear) else layer(rows)
    return result


def narrow_layers(module: object, names: Iterable[str], dtype: torch.dtype) -> None:
    """Replace each named layer of a module by a `NarrowLinear`, or a `PackedLinear` where that is faster."""
    for name in names:
        layer: nn.Linear = getattr(module, name)
        packs = dtype == torch.float32 and packed_linear.is_faster(layer.weight)
        kind = packed_linear.PackedLinear(layer) if packs else NarrowLinear(layer, dtype)
        setattr(module, name, kind)


def with_same_weights(network: Network) -> Network:
    """A copy of a trained network whose layers can be replaced; the weights are shared, not copied."""
    return copy.deepcopy(network, {id(weight): weight for weight in network.parameters()})
