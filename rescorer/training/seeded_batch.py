"""A batch that brings the seed of all that is drawn at random in its update."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class SeededBatch(NamedTuple):
    """The items of an update: windows, sentences or sentence pairs.

    Attributes:
        rows: their numbers, *Shape:* (n,).
        seed: of what is drawn at random in it; of the batch alone, so that a training that is resumed in
            the middle of an epoch draws the same.
    """

    rows: NDArray[np.int64]
    seed: tuple[int, ...]
