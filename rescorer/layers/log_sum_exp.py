"""Log of the softmax's denominator, tile by tile: the logits of a whole vocabulary never exist.

On a CPU the exponentials cost as much as the product when each operation walks the memory again, so
a compiled loop sums those of a tile while it is in the cache. What is taken from the logits before
the exponential need only be near their maximum: the highest product plus the highest bias is.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.layers.float_bits import bits_as_float, exp, in_order
from rescorer.layers.narrow_rows import narrow_rows

# A tile of logits, 1 MB in float32, stays in the processor's second cache until it has been summed.
ROWS_AT_ONCE = 256
WORDS_AT_ONCE = 1024
# On a GPU a gigabyte of float32 logits at a time.
DEVICE_LOGITS_AT_ONCE = 2**28


# From rows, *Shape:* (n, r), and weights, *Shape:* (words, r), to their products, *Shape:* (n, words).
Product = Callable[[Tensor, Tensor], Tensor]


def matmul(rows: Tensor, weight: Tensor) -> Tensor:
    """A `Product` by PyTorch's choice of library."""
    return rows @ weight.T


def log_sum_exp(factors: Tensor, weight: Tensor, bias: Tensor, product: Product = matmul) -> Tensor:
    """Log-sum-exp: log sum_w exp(factors weight_w + bias_w) of each row.

    Args:
        factors: float32, rounded to weight's type, *Shape:* (n, r).
        weight: *Shape:* (V, r), float32 or bfloat16; products accumulate in float32.
        bias: *Shape:* (V,), float32.
        product: of the CPU, in weight's type.

    Returns:
        float32, *Shape:* (n,).
    """
    if factors.device.type != "cpu":
        return _on_device(factors, weight, bias)
    result = torch.empty(len(factors))
    for start in range(0, len(factors), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        narrow = narrow_rows(factors[rows], weight.dtype)
        result[rows] = _rows_on_cpu(narrow, weight, bias, product)[: len(result[rows])]
    return result


def _on_device(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    rows_at_once = max(1, DEVICE_LOGITS_AT_ONCE // len(weight))
    return torch.cat(
        [
            torch.logsumexp((part.to(weight.dtype) @ weight.T).float() + bias, dim=1)
            for part in torch.split(factors, rows_at_once)
        ]
    )


def _rows_on_cpu(factors: Tensor, weight: Tensor, bias: Tensor, product: Product) -> Tensor:
    maxima = np.full(len(factors), -np.inf, np.float32)
    sums = np.zeros(len(factors), np.float32)
    for first in range(0, len(weight), WORDS_AT_ONCE):
        words = slice(first, first + WORDS_AT_ONCE)
        products = product(factors, weight[words])
        if products.dtype == torch.bfloat16:
            bits = products.view(torch.uint16).numpy()
            highest = _highest_of_bfloat16(bits) + bias[words].max().numpy()
            _add_bfloat16(bits, bias[words].numpy(), highest, maxima, sums)
        else:
            highest = (products.amax(dim=1) + bias[words].max()).numpy()
            _add_float32(products.numpy(), bias[words].numpy(), highest, maxima, sums)
    return torch.from_numpy(maxima + np.log(sums))


@numba.njit(nogil=True, cache=True)
def _highest_of_bfloat16(products: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Maximum of each row, *Shape:* (n, words) -> (n,)."""
    result = np.empty(products.shape[0], np.float32)
    for row in range(products.shape[0]):
        highest = np.int32(-(2**31))
        for word in range(products.shape[1]):
            bits = np.int32(np.int32(products[row, word]) << np.int32(16))
            highest = max(highest, in_order(bits))
        result[row] = bits_as_float(in_order(highest))
    return result


@numba.njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
def _add_float32(
    products: NDArray[np.float32],
    bias: NDArray[np.float32],
    highest: NDArray[np.float32],
    maxima: NDArray[np.float32],
    sums: NDArray[np.float32],
) -> None:
    """Add a tile of logits to each row's running sum of exp(logit - maximum).

    Args:
        products: logits without bias, *Shape:* (n, words of the tile).
        bias: *Shape:* (words of the tile,).
        highest: not below any logit of the row in this tile, *Shape:* (n,).
        maxima: what is taken from each logit, raised to `highest`, *Shape:* (n,).
        sums: *Shape:* (n,).
    """
    for row in range(products.shape[0]):
        maximum = max(maxima[row], highest[row])
        total = np.float32(0.0)
        for word in range(products.shape[1]):
            total += exp(products[row, word] + bias[word] - maximum)
        sums[row] = sums[row] * np.exp(maxima[row] - maximum) + total
        maxima[row] = maximum


@numba.njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
def _add_bfloat16(
    products: NDArray[np.uint16],
    bias: NDArray[np.float32],
    highest: NDArray[np.float32],
    maxima: NDArray[np.float32],
    sums: NDArray[np.float32],
) -> None:
    """As `_add_float32`; a bfloat16 is the upper half of a float32."""
    for row in range(products.shape[0]):
        maximum = max(maxima[row], highest[row])
        total = np.float32(0.0)
        for word in range(products.shape[1]):
            product = bits_as_float(np.int32(products[row, word]) << np.int32(16))
            total += exp(product + bias[word] - maximum)
        sums[row] = sums[row] * np.exp(maxima[row] - maximum) + total
        maxima[row] = maximum
