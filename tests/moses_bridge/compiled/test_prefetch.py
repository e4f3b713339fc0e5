"""Reading ahead changes nothing, within an array and behind it."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.prefetch import prefetch


@njit
def summed(rows: NDArray[np.float64], ahead: int) -> float:
    total = 0.0
    for i in range(len(rows)):
        prefetch(rows, i + ahead)
        total += rows[i].sum()
    return total


@pytest.mark.parametrize("ahead", [0, 2, 10**6])
def test_nothing_changes(ahead: int) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    assert summed(rows, ahead) == 66
    assert summed(rows[::2], ahead) == 24
    assert rows.tolist() == np.arange(12.0).reshape(4, 3).tolist()
