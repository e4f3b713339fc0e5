"""The values of pairs for lists and lines, and why some pairs have none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import print_note
from rescorer.contract.batch import Batch, UnscorablePair

Value = TypeVar("Value")
Answer = TypeVar("Answer")
NOT_FINITE = ("a finite score", "train the model again, with a lower learning_rate")


def scored_pairs(
    score: Callable[[Batch], Sequence[Value]], batch: Batch, total: Callable[[Value], float]
) -> tuple[list[Value | None], dict[int, UnscorablePair]]:
    """Score pairs: None for one that raises an error or whose total is not finite; the errors by row."""
    values: list[Value | None] = [None] * len(batch)
    found, rows, faults = answered(score, batch)
    for row, value in zip(rows.tolist(), found or (), strict=True):
        if math.isfinite(total(value)):
            values[row] = value
        else:
            faults[row] = not_finite(row, batch, total(value))
    return values, dict(sorted(faults.items()))


def answered(
    score: Callable[[Batch], Answer], batch: Batch, most: float = math.inf
) -> tuple[Answer | None, NDArray[np.int64], dict[int, UnscorablePair]]:
    """What a scorer says of the pairs that it can score, their rows, and the errors of the others by row.

    With more than `most` errors, or without a pair, it is None of no rows.
    """
    faults, rows = dict[int, UnscorablePair](), np.arange(len(batch))
    while len(rows) and len(faults) <= most:
        try:
            return score(batch.part(rows) if faults else batch), rows, faults
        except UnscorablePair as error:
            faults[int(rows[error.row])] = error
            rows = np.delete(rows, error.row)
    return None, rows[:0], faults


def not_finite(row: int, batch: Batch, value: float) -> UnscorablePair:
    """The error of a pair with such a score."""
    return UnscorablePair(row, batch, None, f"the score {value}", *NOT_FINITE)


def within(
    skip_bad: int, blocks: Iterable[tuple[Value, list[InputError]]], progress: Counter[str]
) -> Iterator[Value]:
    """Yield blocks; count and print the errors of pairs without a value, and raise the first of too many."""
    for block, bad in blocks:
        for error in bad:
            if progress["bad"] >= skip_bad:
                raise error
            progress["bad"] += 1
            print_note(f"note: {error}")
        yield block
