"""The values of pairs for lists and lines, and why some pairs have none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import print_note
from rescorer.contract.batch import Batch, UnscorablePair

Value = TypeVar("Value")
NOT_FINITE = ("a finite score", "train the model again, with a lower learning_rate")


def scored_pairs(
    score: Callable[[Batch], Sequence[Value]], batch: Batch, total: Callable[[Value], float]
) -> tuple[list[Value | None], dict[int, UnscorablePair]]:
    """Score pairs: None for one that raises an error or whose total is not finite; the errors by row."""
    values: list[Value | None] = [None] * len(batch)
    faults, left = dict[int, UnscorablePair](), list(range(len(batch)))
    while left:
        part = batch if not faults else batch.part(np.array(left))
        try:
            found = score(part)
        except UnscorablePair as error:
            faults[left.pop(error.row)] = error
            continue
        for row, value in zip(left, found, strict=True):
            if math.isfinite(total(value)):
                values[row] = value
            else:
                told = f"the score {total(value)}"
                faults[row] = UnscorablePair(row, batch, None, told, *NOT_FINITE)
        break
    return values, dict(sorted(faults.items()))


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
