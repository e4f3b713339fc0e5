"""Maxout of pairs: each unit is the maximum of two, as in the readouts of Cho et al. (2014), appendix A."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.compiled.kept_code import njit, njit_by_numbers
from rescorer.layers.float_bits import narrowed, widened
from rescorer.layers.products import Numbers, numpy_numbers, room_for_rows

MAXOUT_PIECES = 2


def maxout(pieces: Tensor) -> Tensor:
    """The maximum of each two neighbours, *Shape:* (n, 2 m) -> (n, m)."""
    width = pieces.shape[1] // MAXOUT_PIECES
    pairs = pieces.view(len(pieces), width, MAXOUT_PIECES)
    if pieces.device.type != "cpu" or pieces.dtype != torch.float32:
        return pairs.amax(dim=2)
    result: Tensor = _Maxout.apply(pairs)  # type: ignore[no-untyped-call]
    return result


class _Maxout(torch.autograd.Function):
    """The maximum of each pair in one pass, and the gradient in another one: equal numbers have a half each."""

    @staticmethod
    def forward(ctx: Any, pairs: Tensor) -> Tensor:
        """The maxima, *Shape:* (n, m, 2) -> (n, m)."""
        ctx.save_for_backward(pairs)
        result = pairs.new_empty(pairs.shape[:2])
        _maxima(pairs.detach().numpy(), result.numpy())
        return result

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Tensor:
        """The gradient by the pairs."""
        (pairs,) = ctx.saved_tensors
        result = torch.empty_like(pairs)
        _by_pairs(pairs.detach().numpy(), outputs[0].contiguous().numpy(), result.numpy())
        return result


def maxout_of_sum(products: Tensor, addends: Tensor) -> Tensor:
    """The maximum of each two neighbours of a sum, in one pass and without gradients.

    Args:
        products: of the CPU; its rows are as many as those of `narrow_rows`, *Shape:* (n or more, 2 m).
        addends: float32, *Shape:* (n, 2 m).

    Returns:
        In the type of the products, with zero rows as of `narrow_rows`, *Shape:* (n or more, m).
    """
    firsts = addends.view(len(addends), addends.shape[1] // MAXOUT_PIECES, MAXOUT_PIECES)[..., 0]
    result = room_for_rows(firsts, products.dtype)
    _maxout_of_sum(numpy_numbers(products), addends.numpy(), numpy_numbers(result))
    return result


@njit_by_numbers(nogil=True, fastmath=True, error_model="numpy")
def _maxout_of_sum(
    products: Numbers,
    addends: NDArray[np.float32],
    out: Numbers,
) -> None:
    """See `maxout_of_sum`."""
    for row in range(addends.shape[0]):
        for k in range(out.shape[1]):
            one = widened(products[row, 2 * k]) + addends[row, 2 * k]
            other = widened(products[row, 2 * k + 1]) + addends[row, 2 * k + 1]
            out[row, k] = narrowed(one if one > other else other, out[row, k])


@njit(nogil=True)
def _maxima(pairs: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """See `_Maxout.forward`."""
    for row in range(out.shape[0]):
        for k in range(out.shape[1]):
            one, other = pairs[row, k, 0], pairs[row, k, 1]
            out[row, k] = one if one > other else other


@njit(nogil=True)
def _by_pairs(
    pairs: NDArray[np.float32], by_maxima: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    """See `_Maxout.backward`."""
    none, half = np.float32(0.0), np.float32(0.5)
    for row in range(by_maxima.shape[0]):
        for k in range(by_maxima.shape[1]):
            one, other, value = pairs[row, k, 0], pairs[row, k, 1], by_maxima[row, k]
            out[row, k, 0] = value if one > other else none if one < other else half * value
            out[row, k, 1] = value if one < other else none if one > other else half * value
