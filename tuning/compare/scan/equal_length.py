"""The other weight at which an output is as long as another one, by a few decodings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuning.pools.bleu_stats import length_ratio

# A slope between two near decodings is mostly chance: one unlike the first in size is not followed.
SLOPE_RANGE = (0.25, 4.0)
DIGITS = 6  # of the weights decoded with


@dataclass(frozen=True)
class Decoding:
    """One decoding of the text.

    Attributes:
        against: the weight compensating for the length.
        statistics: BLEU statistics of each sentence, whole numbers or not, *Shape:* (n_sentences, 9).
    """

    against: float
    statistics: NDArray[np.float64]

    @property
    def length(self) -> float:
        """Output words for one reference word."""
        return length_ratio(self.statistics.sum(axis=0))


def next_weights(
    tried: Sequence[Decoding], length: float, slope: float, tolerance: float
) -> Iterator[float]:
    """Values of the weight that come nearer and nearer to a length, by the secant method.

    Args:
        tried: the decodings so far, at least one; the caller adds the decoding made with each value.
        length: the length to reach.
        slope: length by weight, for the first step.
        tolerance: the search ends when the last length is as near as this, or a value repeats.
    """
    while abs(tried[-1].length - length) > tolerance and slope:
        last = tried[-1]
        local = _secant(tried[-2], last) if len(tried) > 1 else slope
        if SLOPE_RANGE[0] <= local / slope <= SLOPE_RANGE[1]:
            slope = local
        following = round(last.against + (length - last.length) / slope, DIGITS)
        if any(following == each.against for each in tried):
            return
        yield following


def _secant(one: Decoding, other: Decoding) -> float:
    return (other.length - one.length) / (other.against - one.against)


def at_length(tried: Sequence[Decoding], length: float) -> Decoding:
    """The output of a length, interpolated between the two nearest to it on either side.

    Statistics of BLEU are counts; between two decodings they are assumed to change in proportion to the
    length. Where all decodings are on one side, the nearest one is returned.
    """
    nearest = sorted(tried, key=lambda each: abs(each.length - length))
    first = nearest[0]
    side = first.length - length
    beyond = [each for each in nearest if (each.length - length) * side < 0]
    if not beyond:
        return first
    share = side / (first.length - beyond[0].length)
    return Decoding(
        (1 - share) * first.against + share * beyond[0].against,
        (1 - share) * first.statistics + share * beyond[0].statistics,
    )
