"""Nearest vectors by cosine, block by block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Nearest(NamedTuple):
    """The best candidates of one query, best first; equal ones in the order of the candidates.

    Attributes:
        rows: their places among all candidates, *Shape:* (at most n_best,).
        cosines: from -1 to 1, *Shape:* as many.
    """

    rows: NDArray[np.int64]
    cosines: NDArray[np.float32]


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows divided by their lengths; a row of zeros stays one, so its cosines are 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


def nearest(
    queries: NDArray[np.float32], blocks: Iterable[NDArray[np.float32]], n_best: int
) -> list[Nearest]:
    """The candidates of highest cosine for each query.

    Only one block and the best candidates so far are in memory.

    Args:
        queries: *Shape:* (n_queries, d).
        blocks: the candidates, cut into runs of rows of any number, each *Shape:* (n, d), all divided by
            their lengths as by `unit_rows`.
        n_best: candidates of each query at most.
    """
    directions = unit_rows(queries)
    best = [Nearest(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
    first = 0
    for block in blocks:
        rows = np.arange(first, first + len(block))
        cosines = directions @ block.T
        best = [
            _merged(old, Nearest(rows, new), n_best) for old, new in zip(best, cosines, strict=True)
        ]
        first += len(block)
    return best


def _merged(one: Nearest, other: Nearest, n_best: int) -> Nearest:
    """The best of both; the rows of the first come before those of the other."""
    rows, cosines = (
        np.concatenate([one.rows, other.rows]),
        np.concatenate([one.cosines, other.cosines]),
    )
    if len(rows) > n_best:
        # All as good as the last one stay until the sort, so that ties keep the order of candidates.
        worst = np.partition(cosines, -n_best)[-n_best]
        rows, cosines = rows[cosines >= worst], cosines[cosines >= worst]
    order = np.argsort(-cosines, kind="stable")[:n_best]
    return Nearest(rows[order], cosines[order])
