"""Products in a narrow type: rows of few shapes, and trained layers whose results are float32 again.

For bfloat16, oneDNN compiles and keeps a kernel for every number of rows: a table whose batches have
thousands of different sizes would fill gigabytes with kernels.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

# Few shapes, and at most 63 zero rows in addition to the nodes computed at once; up to 64 rows at most 15.
ROWS_STEP, FEW_ROWS_STEP = 64, 16
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
# float32, or the bits of bfloat16.
Numbers = NDArray[np.float32] | NDArray[np.uint16]
Network = TypeVar("Network", bound=nn.Module)


def narrow_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert rows (n, width) to a type; bfloat16 on a CPU is padded with zero rows to a multiple of a step."""
    if rows.device.type != "cpu" or n_narrow_rows(len(rows), dtype) == len(rows):
        return rows.to(dtype)
    narrow = room_for_rows(rows, dtype)
    narrow[: len(rows)] = rows
    return narrow


def n_narrow_rows(n_rows: int, dtype: torch.dtype) -> int:
    """The number of rows after `narrow_rows`."""
    if dtype != torch.bfloat16:
        return n_rows
    step = ROWS_STEP if n_rows > ROWS_STEP else FEW_ROWS_STEP
    return -(-n_rows // step) * step


def room_for_rows(like: Tensor, dtype: torch.dtype) -> Tensor:
    """Room for as many rows as `like` has, followed by the zero rows of `narrow_rows`."""
    room = like.new_empty(n_narrow_rows(len(like), dtype), like.shape[1], dtype=dtype)
    room[len(like) :] = 0
    return room


def numpy_numbers(tensor: Tensor) -> Numbers:
    """A CPU tensor as a NumPy array; bfloat16, which NumPy lacks, as its bits."""
    narrow = tensor.dtype == torch.bfloat16
    return (tensor.view(torch.uint16) if narrow else tensor).numpy()


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array as a tensor on a device; a GPU is not waited for."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float32 values rounded to a type."""
    return values.to(dtype).float()


class NarrowLinear(nn.Module):
    """A trained layer, not trained further, with its product in another type; the bias is added in float32."""

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
    """Apply a layer without bias to the result of `narrow_rows`, in the type of its weight."""
    result: Tensor = layer.narrow(rows) if isinstance(layer, NarrowLinear) else layer(rows)
    return result


def narrow_layers(module: object, names: Iterable[str], dtype: torch.dtype) -> None:
    """Replace each named layer of a module by a `NarrowLinear`."""
    for name in names:
        setattr(module, name, NarrowLinear(getattr(module, name), dtype))


def with_same_weights(network: Network) -> Network:
    """A copy of a trained network with replaceable layers; the weights are shared, not copied."""
    return copy.deepcopy(network, {id(weight): weight for weight in network.parameters()})
