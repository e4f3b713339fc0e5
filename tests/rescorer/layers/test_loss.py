from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rescorer.layers import loss as softmax
from rescorer.layers.loss import Children, summed_loss

N_ROWS, WIDTH, N_WORDS, N_CHILDREN = 53, 7, 31, 97


def make_problem(dtype: torch.dtype, scale: float = 1.0) -> tuple[list[Tensor], list[Tensor]]:
    torch.manual_seed(2)
    shapes = [(N_ROWS, WIDTH), (N_WORDS, WIDTH), (N_WORDS,)]
    inputs = [(scale * torch.randn(shape, dtype=dtype)).requires_grad_() for shape in shapes]
    rows = torch.sort(torch.randint(0, N_ROWS, (N_CHILDREN,))).values
    words = torch.randint(0, N_WORDS, (N_CHILDREN,))
    words[1], rows[1] = words[0], rows[0]
    return inputs, [rows, words, torch.rand(N_CHILDREN, dtype=dtype)]


def by_definition(inputs: list[Tensor], children: list[Tensor]) -> Tensor:
    rows, weight, bias = inputs
    child_rows, child_words, child_weights = children
    log_probs = torch.log_softmax(rows @ weight.T + bias, dim=1)
    return -(child_weights * log_probs[child_rows, child_words]).sum()


@pytest.mark.parametrize("rows_at_once", [1, 8, 53, 1000])
def test_loss_and_gradients(monkeypatch: pytest.MonkeyPatch, rows_at_once: int) -> None:
    monkeypatch.setattr(softmax, "ROWS_AT_ONCE", rows_at_once)
    inputs, children = make_problem(torch.float64)
    expected = by_definition(inputs, children)
    found = summed_loss(*inputs, Children(*children), torch.float64)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad(2.5 * found, inputs),
        torch.autograd.grad(2.5 * expected, inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_weights_may_have_both_signs() -> None:
    """As those of values, which a training on whole translations weighs."""
    inputs, children = make_problem(torch.float64)
    weights = children[2] - 0.5
    expected = by_definition(inputs, [*children[:2], weights])
    narrow = [tensor.detach().float().requires_grad_() for tensor in inputs]
    found = summed_loss(*narrow, Children(*children[:2], weights.float()))
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    for one, other in zip(
        torch.autograd.grad(found, narrow), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_penalty_of_the_denominator(dtype: torch.dtype) -> None:
    inputs, children = make_problem(torch.float64)
    rows, weight, bias = inputs
    log_totals = torch.logsumexp(rows @ weight.T + bias, dim=1)
    expected = by_definition(inputs, children) + 0.1 * (children[2] @ log_totals[children[0]] ** 2)
    narrow = [tensor.detach().to(dtype).requires_grad_() for tensor in inputs]
    found = summed_loss(*narrow, Children(*children[:2], children[2].to(dtype)), dtype, 0.1)
    close = {"rtol": 1e-7, "atol": 1e-7} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(found.double(), expected, **close)
    for one, other in zip(
        torch.autograd.grad(2.5 * found, narrow),
        torch.autograd.grad(2.5 * expected, inputs),
        strict=True,
    ):
        torch.testing.assert_close(one.double(), other, **close)
    with torch.no_grad():
        alone = summed_loss(*narrow, Children(*children[:2], children[2].to(dtype)), dtype, 0.1)
    torch.testing.assert_close(alone, found.detach())


@pytest.mark.parametrize(
    ("product_type", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
)
def test_narrow_products_are_close(product_type: torch.dtype, tolerance: float) -> None:
    inputs, children = make_problem(torch.float32)
    exact = by_definition(
        [tensor.double() for tensor in inputs], [*children[:2], children[2].double()]
    )
    found = summed_loss(*inputs, Children(*children), product_type)
    assert found.item() == pytest.approx(exact.item(), rel=tolerance)
    for one, other in zip(
        torch.autograd.grad(found, inputs), torch.autograd.grad(exact, inputs), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * float(other.abs().max()))


@pytest.mark.parametrize("product_type", [torch.float32, torch.bfloat16])
def test_large_logits_do_not_overflow(product_type: torch.dtype) -> None:
    inputs, children = make_problem(torch.float32, scale=30.0)
    loss = summed_loss(*inputs, Children(*children), product_type)
    gradients = torch.autograd.grad(loss, inputs)
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_gradients_the_loss_is_the_same(dtype: torch.dtype) -> None:
    inputs, children = make_problem(dtype)
    with torch.no_grad():
        found = summed_loss(*inputs, Children(*children), dtype)
    torch.testing.assert_close(found, by_definition(inputs, children).detach())


@pytest.mark.parametrize("product_type", [torch.float32, torch.bfloat16])
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch, product_type: torch.dtype) -> None:
    monkeypatch.setattr(softmax, "ROWS_AT_ONCE", 8)
    inputs, children = make_problem(torch.float32)
    n_threads, results = torch.get_num_threads(), []
    try:
        for n in (1, 3):
            torch.set_num_threads(n)
            loss = summed_loss(*inputs, Children(*children), product_type)
            results.append([loss.detach(), *torch.autograd.grad(loss, inputs)])
    finally:
        torch.set_num_threads(n_threads)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_a_word_outside_the_shortlist_is_refused() -> None:
    inputs, children = make_problem(torch.float32)
    children[1][3] = N_WORDS
    with pytest.raises(IndexError, match=f"to {N_WORDS} of {N_WORDS}"):
        summed_loss(*inputs, Children(*children))


def test_a_row_that_is_not_there_is_refused() -> None:
    inputs, children = make_problem(torch.float32)
    children[0][-1] = N_ROWS
    with pytest.raises(IndexError, match=f"to {N_ROWS} of {N_ROWS}"):
        summed_loss(*inputs, Children(*children))
