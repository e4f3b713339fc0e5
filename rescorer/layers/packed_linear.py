"""Linear layers through oneDNN, the library that PyTorch brings for narrow types, in float32 too.

PyTorch computes float32 products on a CPU with MKL, which on processors of AMD does not use AVX-512 and reaches
less than half of oneDNN's speed there (EPYC with AVX-512, one thread, 24 to 256 rows: 85 to 103 against 183 to
240 GFLOP/s). Where both use the same instructions MKL is as fast or a little faster (EPYC with AVX2: 65 to 78
against 58 to 72), so what the processor is decides, and the same model has the same values in each run on it.
Weights are laid out for the product once. A row's result does not depend on the number of rows, from two on.
oneDNN compiles a kernel for each number of rows and keeps it (2 ms and 0.7 MB each, 256 by 512, AVX2), so rows
are filled up to few numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from moses_bridge.base.machine import processor_words

TYPICAL_ROWS = 64
# Numbers of rows are multiples of the first up to TYPICAL_ROWS, and of TYPICAL_ROWS above.
FEW_ROWS_STEP = 8
# Words of `processor_words`.
SLOW_WITH_MKL = {"AuthenticAMD", "avx512f"}


def has_onednn() -> bool:
    """Whether this PyTorch has the product."""
    operators: Any = torch.ops.mkldnn
    is_available: Callable[[], bool] = torch.backends.mkldnn.is_available
    return is_available() and hasattr(operators, "_linear_pointwise")


@functools.cache
def gains_here() -> bool:
    """Whether float32 products are faster through oneDNN on this processor, and PyTorch has them."""
    return processor_words() >= SLOW_WITH_MKL and has_onednn()


def is_faster(weight: Tensor) -> bool:
    """Whether products with a weight are faster through oneDNN than by PyTorch's own choice."""
    return weight.dtype == torch.float32 and weight.device.type == "cpu" and gains_here()


def is_onednn_anyway(weight: Tensor) -> bool:
    """Whether PyTorch computes products with a weight by oneDNN itself, and lays it out each time.

    It does so for bfloat16 on the CPU; with `packed` weights the same products take a tenth less.
    """
    if weight.dtype != torch.bfloat16 or weight.device.type != "cpu" or not has_onednn():
        return False
    is_supported: Callable[[], bool] = torch.ops.mkldnn._is_mkldnn_bf16_supported
    return is_supported()


def packed(weight: Tensor) -> Tensor:
    """A weight of the CPU as `product` reads it fastest; nothing else reads it."""
    result: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), TYPICAL_ROWS)
    return result


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product rows weight^T + bias in float32.

    Args:
        rows: *Shape:* (..., width).
        weight: *Shape:* (n_out, width), also as `packed` lays it out.
        bias: *Shape:* (n_out,).

    Returns:
        *Shape:* (..., n_out).
    """
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return result


def rectified_product(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The positive part of `product`, found in the same pass; see `product`."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "relu", [], "")
    return result


def filled_product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`product` of any number of rows, computed with few different ones: rows of zeros are put behind them.

    Args:
        rows: *Shape:* (n, width).
        weight: see `product`.
        bias: *Shape:* (n_out,).

    Returns:
        *Shape:* (n, n_out).
    """
    step = FEW_ROWS_STEP if len(rows) <= TYPICAL_ROWS else TYPICAL_ROWS
    n_more = -len(rows) % step
    if not n_more:
        return product(rows, weight, bias)
    return product(pad(rows, (0, 0, 0, n_more)), weight, bias)[: len(rows)]


class PackedLinear(nn.Module):
    """A trained layer with packed weights; it is not trained further.

    Args:
        layer: the trained one, in float32 on the CPU.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        # Some models look at the type of their layers' weights, so it is called as theirs.
        self.weight = packed(layer.weight)
        self.bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output, *Shape:* (..., in_features) -> (..., out_features)."""
        compute = filled_product if rows.dim() == 2 else product
        return compute(rows, self.weight, self.bias)


def pack(network: nn.Module) -> None:
    """Replace all linear layers of a network; subclasses of `nn.Linear` stay as they are."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child))
