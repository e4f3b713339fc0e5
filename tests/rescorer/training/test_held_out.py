from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest

from rescorer.training.held_out import digest, held_out_mask


@pytest.mark.parametrize(("n_pairs", "wanted", "expected"), [(100, 5, 5), (100, 50, 10), (9, 5, 0)])
def test_held_out_is_at_most_a_tenth(n_pairs: int, wanted: int, expected: int) -> None:
    mask = held_out_mask(n_pairs, wanted, seed=1)
    assert mask.sum() == expected
    np.testing.assert_array_equal(mask, held_out_mask(n_pairs, wanted, seed=1))


def test_another_seed_holds_out_other_items() -> None:
    masks = {held_out_mask(100, 10, seed).tobytes() for seed in range(5)}
    assert len(masks) == 5


@pytest.mark.parametrize("n_items", [0, 1, 9])
def test_of_few_items_none_is_held_out(n_items: int) -> None:
    assert held_out_mask(n_items, 5, seed=1).tolist() == [False] * n_items


def test_a_number_of_items_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        held_out_mask(-1, 5, seed=1)


def test_the_digest_is_that_of_the_lines() -> None:
    assert digest([b"a", b"b c"]) == blake2b(b"a\nb c", digest_size=16).hexdigest()
    assert digest([]) == digest([b""]) == blake2b(b"", digest_size=16).hexdigest()
    assert digest(iter([b"a", b"b"])) != digest([b"ab"]) != digest([b"b", b"a"])
