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
