"""Several scorers combined into one.

Two means are called an ensemble: that of the models' log-probabilities of a sentence (a geometric
mean; a model giving a word no chance vetoes it), and that of their probabilities of each word
(without a veto). They are kept apart by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Mean
from rescorer.contract.scorer import NamedScorer, Scorer, WordScorer
from rescorer.models.reading import RightToLeft


class _Ensemble:
    """The common part of both ensembles of one scorer or more."""

    def __init__(self, scorers: Sequence[Scorer]) -> None:
        self.scorers = tuple(scorers)
        self.shortlist = scorers[0].shortlist  # the first model's
        self.needs_links = any(scorer.needs_links for scorer in scorers)


class MeanOfSentenceLogProbs(_Ensemble):
    """The mean of the models' values."""

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """See `contract.Scorer`."""
        return np.asarray(np.mean([scorer.values(batch) for scorer in self.scorers], axis=0))


class MeanOfWordProbs(_Ensemble):
    """Natural log of the product of the words' mean probabilities.

    Raises:
        ConfigError: a model does not predict word by word, goes from the other end than another, or
            knows other target words: then <unk> is another event.
    """

    def __init__(self, scorers: Sequence[Scorer]) -> None:
        super().__init__(scorers)
        known = [scorer.shortlist.words for scorer in scorers if scorer.shortlist is not None]
        if not all(isinstance(scorer, WordScorer) for scorer in scorers):
            raise ConfigError(
                "a model does not predict word by word: use the mean sentence-log-probs"
            )
        if len({isinstance(scorer, RightToLeft) for scorer in scorers}) > 1:
            raise ConfigError(
                "some models predict the last word first, so a word's probabilities stand behind other words: "
                "use the mean sentence-log-probs"
            )
        if len(known) < len(scorers) or len(set(known)) > 1:
            raise ConfigError(
                "the models know other target words, so their words' probabilities have no mean: train them "
                "with one shortlist on one text, or use the mean sentence-log-probs"
            )

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """See `contract.Scorer`."""
        parts = [scorer.word_log_probs(batch) for scorer in self.scorers]  # type: ignore[attr-defined]
        means = np.logaddexp.reduce([part.log_probs for part in parts]) - np.log(len(parts))
        return np.bincount(parts[0].pairs, means, len(batch)).astype(np.float64)


MEANS: dict[Mean, type[MeanOfSentenceLogProbs] | type[MeanOfWordProbs]] = {
    "sentence-log-probs": MeanOfSentenceLogProbs,
    "word-probs": MeanOfWordProbs,
}


def ensemble(scorers: Sequence[Scorer], mean: Mean) -> Scorer:
    """One scorer from one or more; a single one is returned as it is.

    Raises:
        ConfigError: see `MeanOfWordProbs`.
    """
    return scorers[0] if len(scorers) == 1 else MEANS[mean](scorers)


def fingerprint(scorers: Sequence[NamedScorer], mean: Mean) -> str:
    """The fingerprint of one scorer from some."""
    return f"{mean} {[each.fingerprint for each in scorers]}"


def named_ensemble(scorers: Sequence[NamedScorer], mean: Mean) -> NamedScorer:
    """One scorer from two or more, with a name.

    Raises:
        ConfigError: there is only one, one comes twice, or see `MeanOfWordProbs`.
    """
    names, prints = [each.name for each in scorers], {each.fingerprint for each in scorers}
    if len(scorers) < 2:
        raise ConfigError(
            "a mean is taken of several models: name two at least, or leave --mean out"
        )
    if len(prints) < len(scorers):
        raise ConfigError(f"a model comes twice: {', '.join(names)}")
    name = f"mean of {mean} of {', '.join(names)}"
    return NamedScorer(
        name, ensemble([each.scorer for each in scorers], mean), fingerprint(scorers, mean)
    )
