"""What all kinds of training data share: what is held out, and a digest of the data."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def digest(parts: Iterable[bytes]) -> str:
    """A digest of all training data: it guards the resumption of a training."""
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
    """Which items are held out, whole groups at random: n_held_out items or a few more, at most a tenth of all.

    Args:
        groups: the group of each item; a negative number for an item in no group, never held out,
            *Shape:* (n_items,).
        n_held_out: number of items.
        seed: of the choice.

    Returns:
        *Shape:* (n_items,).
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
