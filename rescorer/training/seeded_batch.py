"""A batch with the seed of all random draws in its update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)


class SeededBatch(NamedTuple):
    """The items of an update: windows, sentences or sentence pairs.

    Attributes:
        rows: their numbers, *Shape:* (n,).
        seed: of its random draws; of the batch alone, so that a training resumed in the middle of an
            epoch draws the same.
        part: the number of this part, where the batch is one of several parts of an update.
        others: what the other parts have, *Shape:* (m,).
    """

    rows: NDArray[np.int64]
    seed: tuple[int, ...]
    part: int = 0
    others: NDArray[np.int64] = NO_ROWS

    def parts(self, n_parts: int) -> list[SeededBatch]:
        """The batch in at most n_parts parts, none empty; see `even_parts`."""
        pieces = even_parts(self.rows, n_parts)
        if len(pieces) < 2:
            return [self]
        return [
            SeededBatch(
                piece, self.seed, number, np.concatenate(pieces[:number] + pieces[number + 1 :])
            )
            for number, piece in enumerate(pieces)
        ]


def in_random_order(
    batches: Sequence[NDArray[np.int64]], seed: tuple[int, ...], rng: np.random.Generator
) -> list[SeededBatch]:
    """The batches of an epoch in random order, each with a seed of its own.

    Args:
        batches: rows of each.
        seed: of the epoch; the number of the update is appended.
        rng: says in which order.
    """
    places = rng.permutation(len(batches))
    return [SeededBatch(batches[place], (*seed, number)) for number, place in enumerate(places)]


def even_parts(rows: NDArray[np.int64], n_parts: int) -> list[NDArray[np.int64]]:
    """Rows in their order in at most n_parts parts of about the same size, none empty."""
    return np.array_split(rows, max(1, min(n_parts, len(rows))))
