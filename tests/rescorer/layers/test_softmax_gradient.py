"""Gradients under a layer with known denominators, against PyTorch's of log_softmax in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rescorer.layers import softmax_gradient as module
from rescorer.layers.predicted import Predicted
from rescorer.layers.softmax_gradient import softmax_gradients

N_ROWS, WIDTH, N_WORDS, N_PREDICTED = 37, 5, 23, 60


def make_problem() -> tuple[nn.Linear, Tensor, Predicted]:
    """Some rows predict nothing, one predicts the same word twice; weights have both signs."""
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    numbers = np.sort(rng.integers(0, N_ROWS - 3, N_PREDICTED))
    words = rng.integers(0, N_WORDS, N_PREDICTED)
    numbers[1], words[1] = numbers[0], words[0]
    layer = nn.Linear(WIDTH, N_WORDS).double()
    rows = 2 * torch.randn(N_ROWS, WIDTH, dtype=torch.float64)
    return layer, rows, Predicted(numbers, words, rng.normal(size=N_PREDICTED))


def by_definition(layer: nn.Linear, rows: Tensor, predicted: Predicted) -> tuple[Tensor, ...]:
    rows = rows.clone().requires_grad_()
    log_probs = torch.log_softmax(layer(rows), 1)[predicted.rows, predicted.words]
    loss = torch.from_numpy(predicted.weights) @ log_probs
    return torch.autograd.grad(loss, (rows, layer.weight, layer.bias))


@pytest.mark.parametrize(("rows_at_once", "words_at_once"), [(1024, 512), (8, 7), (37, 1)])
@pytest.mark.parametrize(
    ("kind", "product_type", "error"),
    [
        (torch.float64, torch.float64, 1e-12),
        (torch.float32, torch.float32, 3e-6),
        (torch.float32, torch.bfloat16, 0.02),
    ],
)
def test_gradients(
    kind: torch.dtype,
    product_type: torch.dtype,
    error: float,
    rows_at_once: int,
    words_at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(module, "WORDS_AT_ONCE", words_at_once)
    layer, rows, predicted = make_problem()
    expected = by_definition(layer, rows, predicted)
    log_z = torch.logsumexp(layer(rows), 1).detach()
    found = softmax_gradients(
        layer.to(kind), rows.to(kind), log_z.to(kind), predicted, product_type
    )
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == kind
        assert float((one - other).norm()) <= error * float(other.norm())


def test_a_row_that_is_not_there_is_refused() -> None:
    layer, rows, predicted = make_problem()
    with pytest.raises(IndexError):
        softmax_gradients(layer, rows[:9], torch.zeros(9).double(), predicted, torch.float64)
