"""Networks trained with folds as one scorer: each pair has the value of the network that has not seen it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.words import split_words
from rescorer.contract.scorer import Batch, Scorer, UnfitPair
from rescorer.contract.vocabulary import Vocabulary
from rescorer.pair_folds import folds_of


class FoldScorer:
    """The values of several scorers, pair by pair that of the one whose fold the pair is in.

    A pair with more words on a side than any network has learned from was seen by none: its value is the mean.

    Args:
        scorers: of the networks, each of which left out the fold of its number.
        max_phrase_words: of the pairs that were learned from.
    """

    def __init__(self, scorers: Sequence[Scorer], max_phrase_words: int) -> None:
        self.scorers = tuple(scorers)
        self.max_phrase_words = max_phrase_words

    @property
    def shortlist(self) -> Vocabulary | None:
        """The target words that the networks know; all have the same ones."""
        return self.scorers[0].shortlist

    @property
    def needs_links(self) -> bool:
        """Whether a batch must have word links."""
        return any(scorer.needs_links for scorer in self.scorers)

    def values(self, asked: Batch) -> NDArray[np.float64]:
        """See `contract.Scorer`."""
        folds = folds_of(asked.sources, asked.targets, len(self.scorers))
        longest = [
            max(len(split_words(source)), len(split_words(target)))
            for source, target in zip(asked.sources, asked.targets, strict=True)
        ]
        is_long = np.array(longest, np.int64) > self.max_phrase_words
        result = np.zeros(len(asked))
        for fold, scorer in enumerate(self.scorers):
            rows = np.flatnonzero((folds == fold) | is_long)
            if len(rows):
                result[rows] += _values(scorer, asked, rows)
        return result / np.where(is_long, len(self.scorers), 1)


def _values(scorer: Scorer, asked: Batch, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The values of some of the pairs; an error names the row of the whole batch."""
    try:
        return scorer.values(asked.part(rows))
    except UnfitPair as error:
        row = int(rows[error.row])
        raise UnfitPair(row, asked, error.side, error.fault, error.expected, error.hint) from error
