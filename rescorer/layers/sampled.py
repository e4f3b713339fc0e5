"""Softmax over some of the words: those of an update and a uniform sample, logits corrected for the sampling.

Bengio & Senécal (2008), importance sampling: a word's logit is lowered by the log of the probability
that the word takes part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# No word's probability of taking part is taken as lower: its logarithm is needed.
LOWEST_INCLUSION = 1e-9


class Candidates(NamedTuple):
    """The words of a sampled softmax.

    Attributes:
        words: rising ids, *Shape:* (n,).
        log_inclusion: natural log of the probability that each takes part, *Shape:* (n,).
    """

    words: NDArray[np.int64]
    log_inclusion: NDArray[np.float64]


class WordSampler:
    """Draws the words of each update.

    Args:
        shares: how much of the training text is each word, *Shape:* (V,).
        update_words: running words of an update.
        n_sampled: words drawn beside those of the update.
    """

    def __init__(self, shares: NDArray[np.float64], update_words: int, n_sampled: int) -> None:
        self.n_words = len(shares)
        self.n_sampled = min(n_sampled, self.n_words)
        absent = (1 - shares) ** update_words * (1 - self.n_sampled / self.n_words)
        self.log_inclusion = np.log(np.maximum(1 - absent, LOWEST_INCLUSION))

    def draw(
        self, words: NDArray[np.int32] | NDArray[np.int64], rng: np.random.Generator
    ) -> Candidates:
        """The words of an update and a sample of all.

        Args:
            words: of the update, *Shape:* (n,).
            rng: says which others.
        """
        sample = rng.choice(self.n_words, self.n_sampled, replace=False)
        candidates = np.union1d(words, sample)
        return Candidates(candidates, self.log_inclusion[candidates])
