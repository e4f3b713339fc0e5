from __future__ import annotations

import pytest
import torch

from rescorer.layers.narrow_rows import narrow_rows


def test_products_in_bfloat16_have_few_shapes() -> None:
    shapes = {len(narrow_rows(torch.ones(n_rows, 3), torch.bfloat16)) for n_rows in range(1, 257)}
    assert shapes == {16, 32, 48, 64, 128, 192, 256}


def test_rows_of_bfloat16_products_stand_before_zeros() -> None:
    rows = torch.full((65, 3), 1.001)
    narrow = narrow_rows(rows, torch.bfloat16)
    assert narrow.dtype == torch.bfloat16
    assert (narrow[:65] == 1).all()
    assert (narrow[65:] == 0).all()
    assert narrow_rows(rows, torch.float32) is rows


def test_no_rows() -> None:
    assert narrow_rows(torch.ones(0, 3), torch.bfloat16).shape == (0, 3)


def test_rows_are_a_matrix() -> None:
    with pytest.raises(IndexError):
        narrow_rows(torch.ones(3), torch.bfloat16)
