from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from moses_bridge.compiled.prefetch import prefetch


@njit
def sum_asked_for(numbers: np.ndarray, ahead: int) -> float:
    total = 0.0
    for i in range(len(numbers)):
        prefetch(numbers, i + ahead)
        total += numbers[i]
    return total


@pytest.mark.parametrize("ahead", [0, 8, 1 << 40])
def test_asking_for_memory_changes_nothing_wherever_it_is(ahead: int) -> None:
    assert sum_asked_for(np.arange(100.0), ahead) == 4950


def test_something_without_memory_is_refused() -> None:
    with pytest.raises(TypingError):
        njit(lambda number: prefetch(number, 0))(3)
