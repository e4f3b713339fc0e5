"""The values of pairs for lists and lines, and why some pairs have none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from rescorer.contract.batch import Batch, UnscorablePair

Value = TypeVar("Value")
NOT_FINITE = ("a finite score", "train the model again, with a lower learning_rate")


def scored_pairs(
    score: Callable[[Batch], Sequence[Value]], batch: Batch, total: Callable[[Value], float]
) -> tuple[list[Value | None], dict[int, UnscorablePair]]:
    """Score pairs, leaving out those that raise an error; a value whose total is not finite is none.

    Returns:
        The value of each pair, or None; the errors of the latter by the place of the pair.
    """
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
