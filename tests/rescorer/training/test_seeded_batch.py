"""."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest
import torch

from rescorer.training.seeded_batch import (
    SeededBatch,
    digest,
    even_parts,
    held_out_groups,
    held_out_mask,
    with_dropout,
)


@pytest.mark.parametrize(
    ("n", "n_parts", "sizes"), [(7, 3, [3, 2, 2]), (2, 5, [1, 1]), (4, 1, [4])]
)
def test_parts_have_all_rows_and_know_the_others(n: int, n_parts: int, sizes: list[int]) -> None:
    batch = SeededBatch(np.arange(10, 10 + n), (1, 2))
    parts = batch.parts(n_parts)
    assert [len(part.rows) for part in parts] == sizes
    assert np.concatenate([part.rows for part in parts]).tolist() == batch.rows.tolist()
    for number, part in enumerate(parts):
        assert (part.part, part.seed) == (number, (1, 2))
        assert sorted([*part.rows, *part.others]) == batch.rows.tolist()


def test_a_part_has_a_size() -> None:
    assert [part.tolist() for part in even_parts(np.arange(0), 3)] == [[]]
    with pytest.raises(TypeError):
        even_parts(np.arange(3), "two")  # type: ignore[arg-type]


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
