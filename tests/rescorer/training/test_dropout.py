from __future__ import annotations

import numpy as np
import pytest
import torch

from rescorer.training.dropout import with_dropout


def test_dropout_keeps_the_mean_and_is_what_the_seed_says() -> None:
    hidden = torch.ones(1000, 7)
    first, again, other = (
        with_dropout(hidden, 0.25, np.random.default_rng(seed)) for seed in ((1, 0), (1, 0), (1, 1))
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert first.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert first.mean().item() == pytest.approx(1, abs=0.03)


def test_a_batch_seldom_has_the_dropout_of_another() -> None:
    hidden = torch.ones(1, 70)
    drawn = [with_dropout(hidden, 0.5, np.random.default_rng(seed)) for seed in range(200)]
    assert len({tuple(units.flatten().tolist()) for units in drawn}) == 200


def test_without_dropout_nothing_changes() -> None:
    hidden = torch.ones(3, 2)
    assert with_dropout(hidden, 0.0, np.random.default_rng(1)) is hidden


def test_a_share_of_more_than_all_is_refused() -> None:
    with pytest.raises(RuntimeError):
        with_dropout(torch.ones(3, 2), 1.5, np.random.default_rng(1))
