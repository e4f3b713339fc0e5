"""The linear part of log Z against least squares in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp

from rescorer.layers.log_z_correction import flatten_log_z


@pytest.fixture
def layer() -> torch.nn.Linear:
    torch.manual_seed(1)
    return torch.nn.Linear(5, 40)


def logits_of(layer: torch.nn.Linear, rows: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(layer(rows).double().numpy())


def test_the_linear_part_is_gone_and_probabilities_stay(layer: torch.nn.Linear) -> None:
    rows = torch.relu(torch.randn(300, 5)) * 3
    rows[:, 2] = 0
    before = logits_of(layer, rows)
    known = np.concatenate([rows.double().numpy(), np.ones((300, 1))], axis=1)
    log_z = logsumexp(before, axis=1)
    rest = log_z - known @ np.linalg.lstsq(known, log_z, rcond=None)[0]
    flatten_log_z(layer, rows.split(77))
    after = logits_of(layer, rows)
    np.testing.assert_allclose(logsumexp(after, axis=1), rest, atol=1e-4)
    np.testing.assert_allclose(log_softmax(after, axis=1), log_softmax(before, axis=1), atol=1e-5)
    assert rest.std() < 0.5 * log_z.std()


def test_without_rows_it_stays(layer: torch.nn.Linear) -> None:
    before = layer.weight.detach().clone()
    flatten_log_z(layer, [])
    torch.testing.assert_close(layer.weight.detach(), before, rtol=0, atol=0)


def test_rows_of_another_width_are_refused(layer: torch.nn.Linear) -> None:
    with pytest.raises(RuntimeError):
        flatten_log_z(layer, [torch.ones(3, 4)])
