"""Rows for products in bfloat16, of few shapes.

For bfloat16, oneDNN compiles a kernel for every number of rows it meets and keeps it: a table whose
batches have thousands of different sizes fills gigabytes with kernels.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Few shapes, and at most 63 zero rows beside the 2,048 nodes computed at once; up to 64 rows at most 15.
ROWS_STEP, FEW_ROWS_STEP = 64, 16


def narrow_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows in a type; in bfloat16 with zero rows behind them, up to a multiple of a step.

    Args:
        rows: *Shape:* (n, width).
        dtype: of the product.

    Returns:
        *Shape:* (n or more, width).
    """
    if dtype != torch.bfloat16:
        return rows.to(dtype)
    step = ROWS_STEP if len(rows) > ROWS_STEP else FEW_ROWS_STEP
    n_rows = -(-len(rows) // step) * step
    narrow = rows.new_empty(n_rows, rows.shape[1], dtype=dtype)
    narrow[: len(rows)] = rows
    narrow[len(rows) :] = 0
    return narrow
