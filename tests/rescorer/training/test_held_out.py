from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest

from rescorer.training.held_out import digest, held_out_groups, held_out_mask


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


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_held_out_whole(seed: int) -> None:
    """Groups of 1 to 5 of 300 items, a third of which are in no group."""
    groups = np.repeat(np.arange(80), np.resize([1, 2, 3, 4], 80))
    groups = np.append(groups, np.full(100, -1))
    mask = held_out_groups(groups, 15, seed)
    assert 15 <= mask.sum() < 15 + 4
    assert not set(groups[mask]) & set(groups[~mask])
    assert not mask[200:].any()


def test_a_group_larger_than_a_tenth_is_not_held_out() -> None:
    groups = np.array([0] * 15 + [1] * 2 + [2] * 3)
    assert held_out_groups(groups, 2, seed=1).tolist() == [False] * 15 + [True] * 2 + [False] * 3


def test_a_number_of_items_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        held_out_mask(-1, 5, seed=1)


def test_the_digest_is_that_of_the_lines() -> None:
    assert digest([b"a", b"b c"]) == blake2b(b"a\nb c", digest_size=16).hexdigest()
    assert digest([]) == digest([b""]) == blake2b(b"", digest_size=16).hexdigest()
    assert digest(iter([b"a", b"b"])) != digest([b"ab"]) != digest([b"b", b"a"])
