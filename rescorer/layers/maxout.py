"""Maxout of pairs: each unit is the maximum of two, as in the readouts of Cho et al. (2014), appendix A."""

from __future__ import annotations

from torch import Tensor

MAXOUT_PIECES = 2


def maxout(pieces: Tensor) -> Tensor:
    """The maximum of each two neighbours, *Shape:* (n, 2 m) -> (n, m)."""
    width = pieces.shape[1] // MAXOUT_PIECES
    return pieces.view(len(pieces), width, MAXOUT_PIECES).amax(dim=2)
