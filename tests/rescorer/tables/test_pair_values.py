"""Values of pairs of which some have none."""

from __future__ import annotations

from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.tables.pair_values import scored_pairs


def lengths(batch: Batch) -> list[float]:
    """Letters of each target; NaN for an empty one, and an error for "?"."""
    for row, target in enumerate(batch.targets):
        if target == b"?":
            raise UnscorablePair(row, batch, "target", "a mark", "a word", "Leave it out")
    return [float(len(target) or "nan") for target in batch.targets]


def test_errors_come_by_their_rows_however_they_were_found() -> None:
    targets = [b"a", b"", b"?", b"abc", b"", b"?"]
    values, faults = scored_pairs(lengths, Batch([b"s"] * 6, targets, None), float)
    assert values == [1.0, None, None, 3.0, None, None]
    assert [*faults] == [1, 2, 4, 5]
    assert [faults[row].found for row in (1, 2)] == ["the score nan", "a mark on the target side"]
