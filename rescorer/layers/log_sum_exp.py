"""Log of the softmax's denominator, tile by tile: the logits of a whole vocabulary never exist.

On a CPU the exponentials cost as much as the product when each operation walks the memory again, so
a compiled loop sums those of a tile while it is in the cache: it goes over a row twice, first for the
maximum, which is taken from the logits before the exponential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.layers import packed_linear
from rescorer.layers.float_bits import bits_as_float, exp, float_as_bits, in_order, widened
from rescorer.layers.narrow_rows import narrow_rows

# A tile of logits, 1 MB in float32, stays in the processor's second cache until it has been summed.
ROWS_AT_ONCE = 512
WORDS_AT_ONCE = 512
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
    return _on_cpu(factors, torch.split(weight, WORDS_AT_ONCE), bias, product)


class LogSumExp:
    """`log_sum_exp` with a trained weight, laid out once for the product where that is faster.

    Args:
        weight: *Shape:* (V, r), float32 or bfloat16.
        bias: *Shape:* (V,), float32.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias = weight, bias
        self._tiles: Sequence[Tensor] = torch.split(weight, WORDS_AT_ONCE)
        self._product: Product = matmul
        if packed_linear.is_faster(weight):
            self._tiles = [packed_linear.packed(tile) for tile in self._tiles]
            self._product = packed_linear.filled_product

    def __call__(self, factors: Tensor) -> Tensor:
        """Log-sum-exp of each row, *Shape:* (n, r) -> (n,)."""
        if factors.device.type != "cpu":
            return _on_device(factors, self._weight, self._bias)
        return _on_cpu(factors, self._tiles, self._bias, self._product)


def _on_device(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    rows_at_once = max(1, DEVICE_LOGITS_AT_ONCE // len(weight))
    return torch.cat(
        [
            torch.logsumexp((part.to(weight.dtype) @ weight.T).float() + bias, dim=1)
            for part in torch.split(factors, rows_at_once)
        ]
    )


def _on_cpu(factors: Tensor, tiles: Sequence[Tensor], bias: Tensor, product: Product) -> Tensor:
    """Of tiles of the weight, *Shape:* (up to WORDS_AT_ONCE, r) each."""
    biases = [part.numpy() for part in torch.split(bias, WORDS_AT_ONCE)]
    result = torch.empty(len(factors))
    for start in range(0, len(factors), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        narrow = narrow_rows(factors[rows], tiles[0].dtype)
        maxima = np.full(len(narrow), -np.inf, np.float32)
        sums = np.zeros(len(narrow), np.float32)
        for tile, addends in zip(tiles, biases, strict=True):
            _add_tile(numpy_numbers(product(narrow, tile)), addends, maxima, sums)
        result[rows] = torch.from_numpy(maxima + np.log(sums))[: len(result[rows])]
    return result


def numpy_numbers(products: Tensor) -> NDArray[np.float32] | NDArray[np.uint16]:
    """The same in NumPy; of bfloat16, which it does not have, the bits."""
    narrow = products.dtype == torch.bfloat16
    return (products.view(torch.uint16) if narrow else products).numpy()


@numba.njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
def _add_tile(
    products: NDArray[np.float32] | NDArray[np.uint16],
    bias: NDArray[np.float32],
    maxima: NDArray[np.float32],
    sums: NDArray[np.float32],
) -> None:
    """Add a tile of logits to each row's running sum of exp(logit - maximum).

    Args:
        products: logits without bias, or the bits of their bfloat16, *Shape:* (n, words of the tile).
        bias: *Shape:* (words of the tile,).
        maxima: the highest logit of each row, here and in the tiles before, *Shape:* (n,).
        sums: *Shape:* (n,).
    """
    for row in range(products.shape[0]):
        highest = in_order(float_as_bits(maxima[row]))
        for word in range(products.shape[1]):
            logit = widened(products[row, word]) + bias[word]
            highest = max(highest, in_order(float_as_bits(logit)))
        maximum = bits_as_float(in_order(highest))
        total = np.float32(0.0)
        for word in range(products.shape[1]):
            total += exp(widened(products[row, word]) + bias[word] - maximum)
        sums[row] = sums[row] * np.exp(maxima[row] - maximum) + total
        maxima[row] = maximum
