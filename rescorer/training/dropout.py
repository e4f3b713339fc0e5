"""Dropout that a seed decides, so that a resumed training leaves out the same units."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def with_dropout(hidden: Tensor, share: float, rng: np.random.Generator, part: int = 0) -> Tensor:
    """Set a share of the units to zero and raise the others so that the mean stays, as the rng says.

    Args:
        hidden: *Shape:* (n, width).
        share: 0 changes nothing; less than 1.
        rng: says which units.
        part: parts of one update, with the same rng, leave out other units.

    Returns:
        *Shape:* (n, width).
    """
    if not share:
        return hidden
    generator = torch.Generator(hidden.device).manual_seed(int(rng.integers(2**62)) + part)
    kept = torch.empty_like(hidden).bernoulli_(1 - share, generator=generator)
    return hidden * kept / (1 - share)
