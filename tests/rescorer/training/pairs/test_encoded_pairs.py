from __future__ import annotations

import numpy as np
import pytest

from rescorer.training.pairs.encoded_pairs import EncodedPairs

PAIRS = EncodedPairs(
    np.array([[2, 0], [3, 4], [5, 0]], np.int32),
    np.array([1, 2, 1]),
    np.array([[7, 0], [8, 9], [6, 0], [6, 6]], np.int32),
    np.array([1, 2, 1, 2]),
    np.array([0, 0, 1, 2]),
    np.array([1.0, 2.0, 3.0, 4.0]),
)


def test_a_part_has_its_own_sources_alone() -> None:
    part = PAIRS.part(np.array([3, 1]))
    assert len(part) == 2 and len(PAIRS) == 4
    assert part.sources.tolist() == [[2, 0], [5, 0]] and part.source_lens.tolist() == [1, 1]
    assert part.targets.tolist() == [[6, 6], [8, 9]] and part.groups.tolist() == [1, 0]
    assert (part.target_lens.tolist(), part.weights.tolist()) == ([2, 2], [4.0, 2.0])


def test_a_pair_that_is_not_there_has_no_part() -> None:
    with pytest.raises(IndexError):
        PAIRS.part(np.array([4]))
