"""."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from rescorer.layers.products import NarrowLinear, narrow_product, narrow_rows, rounded


@pytest.mark.parametrize("n_rows", [0, 1, 64, 65])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_products_of_narrow_rows(n_rows: int, dtype: torch.dtype, error: float) -> None:
    torch.manual_seed(n_rows)
    layer, rows = nn.Linear(16, 11, bias=False), torch.randn(n_rows, 16)
    weight = rounded(layer.weight.detach(), dtype).double().numpy()
    expected = rounded(rows, dtype).double().numpy() @ weight.T
    for made in (NarrowLinear(layer, dtype), layer.requires_grad_(False).to(dtype)):
        found = narrow_product(made, narrow_rows(rows, dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(found[:n_rows].float().numpy(), expected, atol=error)


def test_a_row_does_not_depend_on_the_number_of_rows() -> None:
    torch.manual_seed(2)
    layer, rows = NarrowLinear(nn.Linear(33, 20), torch.bfloat16), torch.randn(200, 33)
    alone = torch.cat([layer(rows[row : row + 1]) for row in range(200)])
    torch.testing.assert_close(layer(rows), alone, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1.00390625, 1.0), (1.01171875, 1.015625), (1.0, 1.0), (-0.7, -0.69921875)],
)
def test_a_number_is_rounded_to_even(number: float, expected: float) -> None:
    """A bfloat16 has 8 binary digits; where two are equally near, the even one is taken."""
    assert rounded(torch.tensor([number]), torch.bfloat16).tolist() == [expected]
    assert rounded(torch.tensor([number]), torch.float32).item() == np.float32(number)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.bfloat16, 0.05)])
def test_a_narrow_layer_is_the_trained_one(bias: bool, dtype: torch.dtype, error: float) -> None:
    torch.manual_seed(1)
    layer = nn.Linear(9, 5, bias=bias)
    rows = torch.randn(70, 9)
    narrow = NarrowLinear(layer, dtype)
    torch.testing.assert_close(narrow(rows), layer(rows).detach(), atol=error, rtol=0)
    assert narrow.weight.dtype == dtype and not narrow.weight.requires_grad


def test_the_bias_is_not_rounded() -> None:
    layer = nn.Linear(2, 1)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, 1.0001)
    assert NarrowLinear(layer, torch.bfloat16)(torch.ones(1, 2)).item() == np.float32(1.0001)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_widths_that_do_not_fit_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError):
        NarrowLinear(nn.Linear(5, 4), dtype)(torch.ones(2, 3))


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
