"""Rows for products in bfloat16, of few shapes.

For bfloat16, oneDNN compiles a kernel for every number of rows it meets and keeps it: a table whose
batches have thousands of different sizes fills gigabytes with kernels.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Few shapes, and at most 63 zero rows beside the 2,048 nodes computed at once.
ROWS_STEP = 64


def narrow_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows in a type; in bfloat16 with zero rows behind them, up to a multiple of ROWS_STEP.

    Args:
        rows: *Shape:* (n, width).
        dtype: of the product.

    Returns:
        *Shape:* (n or more, width).
    """
    if dtype != torch.bfloat16:
        return rows.to(dtype)
    n_rows = -(-len(rows) // ROWS_STEP) * ROWS_STEP
    narrow = rows.new_zeros(n_rows, rows.shape[1], dtype=dtype)
    narrow[: len(rows)] = rows
    return narrow
