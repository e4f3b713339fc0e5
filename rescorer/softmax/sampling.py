"""A softmax over some of the words: those of an update and others drawn at random, corrected for the drawing.

Bengio & Senécal (2008), importance sampling: a word's logit is lowered by the log of the probability that the
word takes part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# No word's probability of taking part is taken as lower: its logarithm is needed.
LOWEST_INCLUSION = 1e-9


class Candidates(NamedTuple):
    """The words over which the softmax of an update is taken.

    Attributes:
        words: rising, *Shape:* (n,).
        corrections: what is taken from the logit of each, *Shape:* (n,).
        places: where the words of the update stand among them, *Shape:* (n_predicted,).
    """

    words: NDArray[np.int64]
    corrections: NDArray[np.float64]
    places: NDArray[np.int64]


class WordSampler:
    """Draws the words beside those of an update, all with the same probability.

    Args:
        shares: of each word among the predicted words, *Shape:* (n_words,).
        n_sampled: words that are drawn; all of them at most.
        batch_words: predicted words of an update.
    """

    def __init__(self, shares: NDArray[np.float64], n_sampled: int, batch_words: int) -> None:
        self.n_words = len(shares)
        self.n_sampled = min(n_sampled, self.n_words)
        absent = (1 - shares) ** batch_words * (1 - self.n_sampled / self.n_words)
        self.log_inclusion = np.log(np.maximum(1 - absent, LOWEST_INCLUSION))

    def draw(
        self, predicted: NDArray[np.int32] | NDArray[np.int64], rng: np.random.Generator
    ) -> Candidates:
        """The candidates of an update.

        Args:
            predicted: its words, *Shape:* (n_predicted,).
            rng: says which others.
        """
        sample = rng.choice(self.n_words, self.n_sampled, replace=False)
        words = np.union1d(predicted, sample)
        return Candidates(words, self.log_inclusion[words], np.searchsorted(words, predicted))
