"""The seeded choices of a training: held-out items, batches with their draws, and dropout.

A resumed training draws the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)


def digest(parts: Iterable[bytes]) -> str:
    """A digest of all training data, which guards the resumption of a training."""
    hashed = blake2b(digest_size=16)
    for number, part in enumerate(parts):
        hashed.update(b"\n" + part if number else part)
    return hashed.hexdigest()


def held_out_mask(n_items: int, n_held_out: int, seed: int) -> NDArray[np.bool_]:
    """Which items are held out: n_held_out at random, at most a tenth of all, *Shape:* (n_items,)."""
    mask = np.zeros(n_items, np.bool_)
    rng = np.random.default_rng(seed)
    mask[rng.permutation(n_items)[: min(n_held_out, n_items // 10)]] = True
    return mask


def held_out_groups(groups: NDArray[np.int64], n_held_out: int, seed: int) -> NDArray[np.bool_]:
    """Which items are held out, *Shape:* (n_items,): n_held_out or a few more, in whole random groups.

    At most a tenth of all are held out. `groups` (n_items,) has the group of each, negative for an item in
    none, which is never held out.
    """
    names, sizes = np.unique(groups[groups >= 0], return_counts=True)
    order = np.random.default_rng(seed).permutation(len(names))
    most, wanted = len(groups) // 10, min(n_held_out, len(groups) // 10)
    chosen, n_chosen = list[int](), 0
    for place in order:
        if n_chosen < wanted and n_chosen + sizes[place] <= most:
            chosen.append(names[place])
            n_chosen += sizes[place]
    return np.isin(groups, chosen)


class SeededBatch(NamedTuple):
    """The items of an update: windows, sentences or sentence pairs.

    Attributes:
        rows: their numbers, *Shape:* (n,).
        seed: of its random draws; it depends on the batch alone, so that a training resumed within an epoch
            draws the same.
        part: the number of this part, if the batch is one of several parts of an update.
        others: the items of the other parts, *Shape:* (m,).
        pool: of the data, if these are in memory pool by pool.
    """

    rows: NDArray[np.int64]
    seed: tuple[int, ...]
    part: int = 0
    others: NDArray[np.int64] = NO_ROWS
    pool: int = 0

    def parts(self, n_parts: int) -> list[SeededBatch]:
        """The batch in at most n_parts parts, none empty; see `even_parts`."""
        pieces = even_parts(self.rows, n_parts)
        if len(pieces) < 2:
            return [self]
        return [
            self._replace(
                rows=piece,
                part=number,
                others=np.concatenate(pieces[:number] + pieces[number + 1 :]),
            )
            for number, piece in enumerate(pieces)
        ]


def in_random_order(
    batches: Sequence[NDArray[np.int64]], seed: tuple[int, ...], rng: np.random.Generator
) -> list[SeededBatch]:
    """The batches of an epoch in random order, each seeded by the epoch's seed and the update's number."""
    places = rng.permutation(len(batches))
    return [SeededBatch(batches[place], (*seed, number)) for number, place in enumerate(places)]


def even_parts(rows: NDArray[np.int64], n_parts: int) -> list[NDArray[np.int64]]:
    """Rows, in order, in at most n_parts parts of about the same size, none empty."""
    return np.array_split(rows, max(1, min(n_parts, len(rows))))


def with_dropout(hidden: Tensor, share: float, rng: np.random.Generator, part: int = 0) -> Tensor:
    """Set a random share, below 1, of the units (n, width) to zero and scale up the others to keep the mean.

    With the same rng, the parts of an update leave out different units.
    """
    if not share:
        return hidden
    generator = torch.Generator(hidden.device).manual_seed(int(rng.integers(2**62)) + part)
    kept = torch.empty_like(hidden).bernoulli_(1 - share, generator=generator)
    return hidden * kept / (1 - share)
