"""Word links from where a network looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Link = tuple[int, int]


def attention_links(weights: NDArray[np.float32], min_weight: float = 0.0) -> list[Link]:
    """Each target word with its most attended source word, in the order of the target.

    A target word that looks most at </s> has no link; of equal weights the first counts.

    Args:
        weights: of a pair, with </s> as last row and last column, *Shape:* (I + 1, J + 1).
        min_weight: a link needs so much, 0 to 1.

    Returns:
        Source word and target word, counted from 0.
    """
    end = weights.shape[1] - 1
    best = weights[:-1].argmax(axis=1)
    return [
        (int(source), target)
        for target, source in enumerate(best)
        if source != end and weights[target, source] >= min_weight
    ]
