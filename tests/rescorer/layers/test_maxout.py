from __future__ import annotations

import pytest
import torch

from rescorer.layers.maxout import maxout, maxout_of_sum
from rescorer.layers.products import narrow_rows


def test_the_maximum_of_neighbours() -> None:
    assert maxout(torch.tensor([[1.0, 3.0, -2.0, -5.0]])).tolist() == [[3.0, -2.0]]


@pytest.mark.parametrize("n_rows", [0, 1, 70])
def test_compiled_loops_are_the_maximum_of_pytorch(n_rows: int) -> None:
    pieces = torch.randn(n_rows, 10)
    pieces[:, 4:6] = 0.5
    weights = torch.randn(n_rows, 5)
    found, expected = pieces.clone().requires_grad_(), pieces.clone().requires_grad_()
    maxima = maxout(found)
    assert torch.equal(maxima, expected.view(n_rows, 5, 2).amax(dim=2))
    (maxima * weights).sum().backward()
    (expected.view(n_rows, 5, 2).amax(dim=2) * weights).sum().backward()
    assert found.grad is not None and expected.grad is not None
    assert torch.equal(found.grad, expected.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_odd_width_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError):
        maxout(torch.zeros(2, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n_rows", [0, 1, 64, 65])
def test_of_a_sum(dtype: torch.dtype, n_rows: int) -> None:
    products, addends = torch.randn(n_rows, 10), torch.randn(n_rows, 10)
    products = narrow_rows(products, dtype)
    pairs = (products[:n_rows].double() + addends.double()).reshape(n_rows, 5, 2)
    found = maxout_of_sum(products, addends)
    assert found.shape == (len(products), 5) and not found[n_rows:].any()
    expected = pairs.max(dim=2).values.float().to(dtype)
    torch.testing.assert_close(found[:n_rows], expected, rtol=8e-3, atol=1e-6)


def test_of_a_sum_of_an_odd_width_is_refused() -> None:
    with pytest.raises(RuntimeError):
        maxout_of_sum(torch.zeros(2, 3), torch.zeros(2, 3))
