"""Rows for products in bfloat16, of few shapes.

For bfloat16, oneDNN compiles a kernel for every number of rows it meets and keeps it: a table whose
batches have thousands of different sizes fills gigabytes with kernels.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Few shapes, and at most 63 zero rows beside the nodes computed at once; up to 64 rows at most 15.
ROWS_STEP, FEW_ROWS_STEP = 64, 16
# float32, or the bits of bfloat16.
Numbers = NDArray[np.float32] | NDArray[np.uint16]


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
