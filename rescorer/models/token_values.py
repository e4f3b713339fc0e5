"""The tokens that a model predicts and their values: words of own networks, subwords of pretrained models."""

from __future__ import annotations

import numpy as np

from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import ScoredTokens, Scorer, SubwordScorer, WordScorer
from rescorer.contract.vocabulary import END
from rescorer.models.reading import ReversedSides, in_own_sides


def token_values(scorer: Scorer, batch: Batch, end: bool = True) -> list[ScoredTokens]:
    """The tokens of each pair's target, the end of sentence last; with reversed sides, of its source.

    Their log-probabilities add up to the pair's value; words are spelt as in the text. Without `end` the end of
    sentence is left out. The scorer must be one that `predicts_tokens`.

    Raises:
        UnscorablePair: the scorer has no value for a pair.
    """
    if isinstance(scorer, ReversedSides):
        with in_own_sides(batch):
            return token_values(scorer.scorer, batch.sides_swapped(), end)
    if isinstance(scorer, SubwordScorer):
        found = scorer.subword_log_probs(batch)
        end = end or not scorer.predicts_end
    else:
        words: WordScorer = scorer  # type: ignore[assignment]
        log_probs, pairs = words.word_log_probs(batch)
        ends = np.cumsum(np.bincount(pairs, minlength=len(batch)))[:-1]
        values = np.split(np.asarray(log_probs, np.float64), ends)
        columns = zip(batch.targets, values, strict=True)
        found = [ScoredTokens([*split_words(target), END], own) for target, own in columns]
    return found if end else [ScoredTokens(own[:-1], values[:-1]) for own, values in found]


def predicts_tokens(scorer: Scorer) -> bool:
    """Whether `token_values` has values of this scorer."""
    own = scorer.scorer if isinstance(scorer, ReversedSides) else scorer
    return isinstance(own, WordScorer | SubwordScorer)
