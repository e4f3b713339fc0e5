from __future__ import annotations

import pytest
import torch

from rescorer.layers.maxout import maxout


def test_the_maximum_of_neighbours() -> None:
    assert maxout(torch.tensor([[1.0, 3.0, -2.0, -5.0]])).tolist() == [[3.0, -2.0]]


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(RuntimeError):
        maxout(torch.zeros(2, 3))
