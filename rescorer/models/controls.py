"""Negative controls: scorers that know nothing of translation, for columns without information.

They replace a model, so that the same tuning can be run with them.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Control
from rescorer.contract.scorer import NamedScorer

# A uniform number from here to 0 has a standard deviation of 4.3, about that of a phrase's log p.
LOWEST_RANDOM_LOG_PROB = -15.0


def scorer_of_control(control: Control, seed: int) -> NamedScorer:
    """The scorer of a control; the seed says which noise."""
    match control:
        case "random":
            name = f"control: random, seed {seed}"
            return NamedScorer(name, RandomScorer(seed), name)
        case "length":
            return NamedScorer("control: length", LengthScorer(), "length")


class RandomScorer:
    """Log-uniform noise: log p uniform in (-15, 0), s.d. 4.3, about that of a phrase's log p.

    A pair has the same value wherever it occurs, as a model's score would.

    Args:
        seed: which noise.
    """

    shortlist = None
    needs_links = False

    def __init__(self, seed: int) -> None:
        self.key = seed.to_bytes(8, "little", signed=True)

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Noise of each pair, *Shape:* (n_pairs,)."""
        digests = b"".join(
            blake2b(source + b"\n" + target, digest_size=8, key=self.key).digest()
            for source, target in zip(batch.sources, batch.targets, strict=True)
        )
        return LOWEST_RANDOM_LOG_PROB * (np.frombuffer(digests, "<u8") / 2.0**64)


class LengthScorer:
    """Minus the number of target words: what a preference for short phrases alone gains."""

    shortlist = None
    needs_links = False

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """-1 for each target word, *Shape:* (n_pairs,)."""
        return np.array([-len(split_words(target)) for target in batch.targets], np.float64)
