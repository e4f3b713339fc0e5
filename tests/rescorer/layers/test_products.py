from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from rescorer.layers.products import NarrowLinear, product, rounded


def exact(rows: torch.Tensor, weight: torch.Tensor) -> np.ndarray:
    return rows.double().numpy() @ weight.double().numpy().T


@pytest.mark.parametrize("n_rows", [0, 1, 64, 65])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_product(n_rows: int, dtype: torch.dtype, error: float) -> None:
    generator = torch.Generator().manual_seed(n_rows)
    rows, weight = (torch.randn(n, 16, generator=generator) for n in (n_rows, 11))
    narrow = rounded(rows, dtype), weight.to(dtype)
    found = product(rows, narrow[1])
    assert (found.shape, found.dtype) == ((n_rows, 11), torch.float32)
    np.testing.assert_allclose(found.numpy(), exact(*narrow), atol=error)


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
        product(torch.ones(2, 3), torch.ones(4, 5, dtype=dtype))
