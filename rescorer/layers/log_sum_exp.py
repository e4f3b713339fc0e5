"""Log of the softmax's denominator, computed in tiles, without storing the logits of the whole vocabulary.

On a CPU the exponentials cost as much as the product if each operation walks the memory again, so a compiled
loop sums those of a tile while it is in the cache. The shift subtracted from the logits is the maximum of the
row's first tile; a later tile replaces it only where the sum would grow large. So one pass over a tile is
enough.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moses_bridge.base.compiled.inner import expanded
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.progress import print_note
from rescorer.layers.float_bits import bits_as_float, exp, float_as_bits, in_order, widened
from rescorer.layers.products import Floats, Numbers, narrow_rows, numpy_numbers

# A tile of logits, 1 MB in bfloat16, stays in the processor's caches until it has been summed.
ROWS_AT_ONCE = 1024
WORDS_AT_ONCE = 512
# Of a row without a tile yet: lower than all logits.
NO_SHIFT = np.float32(-1e30)
# Of exp(logit - shift) over a tile. A tile whose logits are all at the shift has less, so the next shift is
# higher; no logit is above its shift by more than log 4,096 = 8.3, which costs less than a float's last place.
LARGEST_SUM = np.float32(4096.0)
# On a GPU a gigabyte of float32 logits at a time.
DEVICE_LOGITS_AT_ONCE = 2**28
# Nats, between two ways of the same log Z, of some 10; a rounding in bfloat16 is at most 0.03.
LARGEST_DIFFERENCE = {torch.float32: 1e-4, torch.bfloat16: 0.2}


def log_sum_exp(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Log-sum-exp: log sum_w exp(factors weight_w + bias_w) of each row.

    Args:
        factors: float32, rounded to the type of weight, *Shape:* (n, r).
        weight: float32 or bfloat16; products accumulate in float32, *Shape:* (V, r).
        bias: float32, *Shape:* (V,).

    Returns:
        float32, *Shape:* (n,).
    """
    compute = _on_cpu if factors.device.type == "cpu" else _on_device
    return compute(factors, weight, bias)


def _on_device(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    fused = _fused() if factors.device.type == "cuda" and not torch.is_grad_enabled() else None
    return (fused or _by_operations)(factors, weight, bias)


@functools.cache
def _fused() -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
    """The Triton kernel, where Triton is installed and gives the results of PyTorch's operations."""
    if find_spec("triton") is None:
        return None
    generator = torch.Generator().manual_seed(1)
    try:
        from rescorer.layers.fused_log_sum_exp import fused_log_sum_exp

        rows, weight = (torch.randn(n, 100, generator=generator).cuda() / 2 for n in (70, 1500))
        for dtype in (torch.float32, torch.bfloat16):
            given = rows, weight.to(dtype), weight[:, 0].contiguous()
            difference = (fused_log_sum_exp(*given) - _by_operations(*given)).abs().max()
            if not difference < LARGEST_DIFFERENCE[dtype]:
                raise ArithmeticError(f"it is {float(difference):.2g} off in {dtype}")
    except Exception as error:  # without a C compiler, or on an old GPU: Triton raises many kinds
        print_note(f"Triton's kernel for log Z cannot be used here, so scoring is slower: {error}")
        return None
    return fused_log_sum_exp


def _by_operations(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    rows_at_once = max(1, DEVICE_LOGITS_AT_ONCE // len(weight))
    return torch.cat(
        [
            torch.logsumexp((part.to(weight.dtype) @ weight.T).float() + bias, dim=1)
            for part in torch.split(factors, rows_at_once)
        ]
    )


def _on_cpu(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    tiles = torch.split(weight, WORDS_AT_ONCE)
    biases = [part.numpy() for part in torch.split(bias, WORDS_AT_ONCE)]
    result = torch.empty(len(factors))
    for start in range(0, len(factors), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        narrow = narrow_rows(factors[rows], weight.dtype)
        shifts, sums = np.full(len(narrow), NO_SHIFT), np.zeros(len(narrow), np.float32)
        for tile, addends in zip(tiles, biases, strict=True):
            _add_tile(numpy_numbers(narrow @ tile.T), addends, shifts, sums)
        result[rows] = torch.from_numpy(shifts + np.log(sums))[: len(result[rows])]
    return result


@njit(nogil=True, fastmath=True, error_model="numpy")
def _add_tile(products: Numbers, bias: Floats, shifts: Floats, sums: Floats) -> None:
    """Add a tile of logits, without bias (n, words), to each row's sum of exp(logit - shift), (n,)."""
    for row in range(products.shape[0]):
        shift, total = shifts[row], LARGEST_SUM
        if shift != NO_SHIFT:
            total = _sum(products[row], bias, shift)
        if total >= LARGEST_SUM:
            shift = _highest(products[row], bias)
            total = _sum(products[row], bias, shift)
            sums[row] *= exp(shifts[row] - shift)
            shifts[row] = shift
        sums[row] += total


@expanded
def _highest(products: Any, bias: Any) -> Any:
    highest = in_order(float_as_bits(NO_SHIFT))
    for word in range(len(products)):
        logit = widened(products[word]) + bias[word]
        highest = max(highest, in_order(float_as_bits(logit)))
    return bits_as_float(in_order(highest))


@expanded
def _sum(products: Any, bias: Any, shift: Any) -> Any:
    total = np.float32(0.0)
    for word in range(len(products)):
        total += exp(widened(products[word]) + bias[word] - shift)
    return total
