from __future__ import annotations

import numpy as np
import pytest

from moses_bridge.builtin.decoder.lattice import Paths, take_paths


@pytest.fixture
def paths() -> Paths:
    """Three paths of 2, 0 and 3 phrases."""
    return Paths(
        np.array([0, 2, 2, 5]),
        np.array([7, 8, 1, 2, 3], np.int32),
        np.array([0.5, 0.25, 0.125]),
        np.arange(6.0).reshape(3, 2),
    )


@pytest.mark.parametrize(
    ("numbers", "options", "starts"),
    [
        ([0, 1, 2], [7, 8, 1, 2, 3], [0, 2, 2, 5]),
        ([2, 0], [1, 2, 3, 7, 8], [0, 3, 5]),
        ([1], [], [0, 0]),
    ],
)
def test_paths_can_be_taken_in_another_order(
    paths: Paths, numbers: list[int], options: list[int], starts: list[int]
) -> None:
    taken = take_paths(paths, np.array(numbers))
    assert (taken.options.tolist(), taken.phrase_starts.tolist()) == (options, starts)
    assert taken.totals.tolist() == paths.totals[numbers].tolist()
    assert taken.features.tolist() == paths.features[numbers].tolist()


def test_a_path_that_is_not_there_is_an_error(paths: Paths) -> None:
    with pytest.raises(IndexError):
        take_paths(paths, np.array([3]))
