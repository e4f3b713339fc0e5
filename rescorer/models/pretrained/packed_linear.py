"""Linear layers through oneDNN, the library that PyTorch brings for narrow types, in float32 too.

PyTorch computes float32 products on a CPU with MKL, which on processors of AMD reaches less than half of
oneDNN's speed (EPYC with AVX-512, one thread, 24 to 256 rows: 85 to 103 against 183 to 240 GFLOP/s). Weights
are laid out for the product once. A row's result does not depend on the number of rows, from two on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

TYPICAL_ROWS = 64


def has_onednn() -> bool:
    """Whether this PyTorch has the product."""
    operators: Any = torch.ops.mkldnn
    is_available: Callable[[], bool] = torch.backends.mkldnn.is_available
    return is_available() and hasattr(operators, "_linear_pointwise")


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product rows weight^T + bias in float32.

    Args:
        rows: *Shape:* (..., width).
        weight: *Shape:* (n_out, width), also as `_reorder_linear_weight` lays it out.
        bias: *Shape:* (n_out,).

    Returns:
        *Shape:* (..., n_out).
    """
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return result


class PackedLinear(nn.Module):
    """A trained layer with packed weights; it is not trained further.

    Args:
        layer: the trained one, in float32 on the CPU.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()
        # Some models look at the type of their layers' weights, so it is called as theirs.
        self.weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS)
        self.bias = layer.bias

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output, *Shape:* (..., in_features) -> (..., out_features)."""
        return product(rows, self.weight, self.bias)


def pack(network: nn.Module) -> None:
    """Replace all linear layers of a network; subclasses of `nn.Linear` stay as they are."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child))
