"""Scorers that know nothing of translation: what a column gains that ought to gain nothing.

They stand where a model stands, so that the same tuning can be run with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import ConfigError
from moses_bridge.formats.phrase_table import words

LOWEST_RANDOM_LOG_PROB = -15.0


class RandomScorer:
    """Log-uniform noise: log p uniform in (-15, 0), s.d. 4.3, about that of a phrase's log p.

    A pair has the same value wherever it stands, as a model's score would.

    Args:
        seed: which noise.
    """

    def __init__(self, seed: int) -> None:
        self.key = seed.to_bytes(8, "little", signed=True)

    def log_probs(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> NDArray[np.float64]:
        """Noise of each pair, *Shape:* (n_pairs,)."""
        digests = b"".join(
            blake2b(source + b"\n" + target, digest_size=8, key=self.key).digest()
            for source, target in zip(sources, targets, strict=True)
        )
        return LOWEST_RANDOM_LOG_PROB * (np.frombuffer(digests, "<u8") / 2.0**64)

    def n_unknown(self, targets: Sequence[bytes]) -> NDArray[np.int64]:
        """A control has no shortlist; see `LengthScorer.n_unknown`."""
        return _no_shortlist()


class LengthScorer:
    """Minus the number of target words: what a preference for short phrases alone gains."""

    def log_probs(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> NDArray[np.float64]:
        """-1 for each target word, *Shape:* (n_pairs,)."""
        return np.array([-len(words(target)) for target in targets], np.float64)

    def n_unknown(self, targets: Sequence[bytes]) -> NDArray[np.int64]:
        """A control has no shortlist.

        Raises:
            ConfigError: always.
        """
        return _no_shortlist()


def _no_shortlist() -> NDArray[np.int64]:
    raise ConfigError("a control has no shortlist, so no unknown words: leave unknown-words out")
