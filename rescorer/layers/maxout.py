"""Maxout of pairs: each unit is the maximum of two, as in the readouts of Cho et al. (2014), appendix A."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rescorer.layers.float_bits import narrowed, widened
from rescorer.layers.narrow_rows import numpy_numbers, room_for_rows

MAXOUT_PIECES = 2


def maxout(pieces: Tensor) -> Tensor:
    """The maximum of each two neighbours, *Shape:* (n, 2 m) -> (n, m)."""
    width = pieces.shape[1] // MAXOUT_PIECES
    return pieces.view(len(pieces), width, MAXOUT_PIECES).amax(dim=2)


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


@numba.njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
def _maxout_of_sum(
    products: NDArray[np.float32] | NDArray[np.uint16],
    addends: NDArray[np.float32],
    out: NDArray[np.float32] | NDArray[np.uint16],
) -> None:
    """See `maxout_of_sum`."""
    for row in range(addends.shape[0]):
        for k in range(out.shape[1]):
            one = widened(products[row, 2 * k]) + addends[row, 2 * k]
            other = widened(products[row, 2 * k + 1]) + addends[row, 2 * k + 1]
            out[row, k] = narrowed(one if one > other else other, out[row, k])
