"""Products in a narrow type: rows of few shapes, and trained layers whose results are float32 again.

For bfloat16, oneDNN compiles a kernel for every number of rows it meets and keeps it: a table whose
batches have thousands of different sizes fills gigabytes with kernels.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

# Few shapes, and at most 63 zero rows beside the nodes computed at once; up to 64 rows at most 15.
ROWS_STEP, FEW_ROWS_STEP = 64, 16
# float32, or the bits of bfloat16.
Numbers = NDArray[np.float32] | NDArray[np.uint16]
Network = TypeVar("Network", bound=nn.Module)


def narrow_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows in a type; in bfloat16 on a CPU with zero rows behind them, up to a multiple of a step.

    Args:
        rows: *Shape:* (n, width).
        dtype: of the product.

    Returns:
        *Shape:* (n or more, width).
    """
    if rows.device.type != "cpu" or n_narrow_rows(len(rows), dtype) == len(rows):
        return rows.to(dtype)
    narrow = room_for_rows(rows, dtype)
    narrow[: len(rows)] = rows
    return narrow


def n_narrow_rows(n_rows: int, dtype: torch.dtype) -> int:
    """The number of rows that `narrow_rows` makes of so many."""
    if dtype != torch.bfloat16:
        return n_rows
    step = ROWS_STEP if n_rows > ROWS_STEP else FEW_ROWS_STEP
    return -(-n_rows // step) * step


def room_for_rows(like: Tensor, dtype: torch.dtype) -> Tensor:
    """Room for as many rows as another tensor has, with the zero rows of `narrow_rows` behind it."""
    room = like.new_empty(n_narrow_rows(len(like), dtype), like.shape[1], dtype=dtype)
    room[len(like) :] = 0
    return room


def numpy_numbers(tensor: Tensor) -> Numbers:
    """A tensor of the CPU in NumPy; of bfloat16, which it does not have, the bits."""
    narrow = tensor.dtype == torch.bfloat16
    return (tensor.view(torch.uint16) if narrow else tensor).numpy()


def rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float32 values as a type has them."""
    return values.to(dtype).float()


class NarrowLinear(nn.Module):
    """A trained layer whose product is computed in another type; it is not trained further.

    Args:
        layer: the trained one.
        dtype: of the product; the bias is added in float32.
    """

    def __init__(self, layer: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight = layer.weight.detach().to(dtype)
        self.addend = None if layer.bias is None else layer.bias.detach()

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output in float32, *Shape:* (n, in_features) -> (n, out_features)."""
        result = self.narrow(narrow_rows(rows, self.weight.dtype))[: len(rows)].float()
        return result if self.addend is None else result + self.addend

    def narrow(self, rows: Tensor) -> Tensor:
        """The product without the bias; see `narrow_product`."""
        return linear(rows, self.weight)


def narrow_product(layer: nn.Module, rows: Tensor) -> Tensor:
    """What a layer without a bias makes of rows that `narrow_rows` gave, in the type of its weight."""
    result: Tensor = layer.narrow(rows) if isinstance(layer, NarrowLinear) else layer(rows)
    return result


def narrow_layers(module: object, names: Iterable[str], dtype: torch.dtype) -> None:
    """Replace each named layer of a module by a `NarrowLinear`."""
    for name in names:
        setattr(module, name, NarrowLinear(getattr(module, name), dtype))


def with_same_weights(network: Network) -> Network:
    """A copy of a trained network whose layers can be replaced; the weights are shared, not copied."""
    return copy.deepcopy(network, {id(weight): weight for weight in network.parameters()})
