"""Scorers and generators of text in its own order, from models trained on another reading of it.

A network trained on swapped sides predicts sources; one trained on turned sentences predicts the
last word first, and sees the end of a sentence before it must decide on the beginning. The networks
are the same; the model's record has its reading (`contract.Reading`), and the wrappers here undo
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.words import split_words, turned_words
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.choices import Side
from rescorer.contract.scorer import ScoredTokens, Scorer, SubwordScorer, WordLogProbs, WordScorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import END, Vocabulary

if TYPE_CHECKING:
    from rescorer.contract.target_generation import Generated, GenerationConfig, TargetGenerator


# Of a column: what its values are the logarithms of.
REVERSED_NOTE = "p(source | target)"
OTHER_SIDE: dict[Side, Side] = {"source": "target", "target": "source"}


def in_own_order(model: TrainedModel[Any], scorer: Scorer) -> Scorer:
    """The scorer of a model for pairs in their own order.

    The given one scores data as the network read them; for turned data it predicts word by word.
    """
    if model.goes_right_to_left:
        scorer = RightToLeft(scorer)
    return ReversedSides(scorer, model.shortlists.source) if model.reverses_sides else scorer


class ReversedSides:
    """Natural log p(source | target) of pairs, by a network reading targets and predicting sources.

    It is no `WordScorer`: the words predicted are those of the source. The shortlist has the target
    words it reads.
    """

    def __init__(self, scorer: Scorer, shortlist: Vocabulary | None) -> None:
        self.scorer, self.needs_links = scorer, scorer.needs_links
        self.shortlist = shortlist

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Natural log p(source | target), </s> included; see `contract.Scorer`."""
        with in_own_sides(batch):
            return self.scorer.values(batch.sides_swapped())


@contextmanager
def in_own_sides(batch: Batch) -> Iterator[None]:
    """Name the sides of a batch in the error of a pair that was scored with its sides swapped."""
    try:
        yield
    except UnscorablePair as error:
        side = None if error.side is None else OTHER_SIDE[error.side]
        raise UnscorablePair(
            error.row, batch, side, error.fault, error.expected, error.hint
        ) from error


def turned(sentences: Sequence[bytes]) -> list[bytes]:
    """The words of each sentence from the last one to the first."""
    return list(map(turned_words, sentences))


class RightToLeft:
    """Natural log p(target | source), or p(target), of a network trained on turned targets.

    The given scorer, a `WordScorer` too, takes turned targets, without word links.
    """

    needs_links = False

    def __init__(self, scorer: Any) -> None:
        self.scorer, self.shortlist = scorer, scorer.shortlist

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """See `contract.Scorer`."""
        return np.asarray(self.scorer.values(Batch(batch.sources, turned(batch.targets))))

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        """Natural log of each word given the following ones, at the place of the word.

        The last value of each pair, for </s>, is log p of ending after the sentence's first word.
        """
        found: WordLogProbs = self.scorer.word_log_probs(
            Batch(batch.sources, turned(batch.targets))
        )
        return found._replace(log_probs=found.log_probs[_turned_words(found.pairs)])


def _turned_words(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of the values of turned sentences' words; the last one of a pair is </s>, which stays."""
    lens = np.bincount(pairs)
    ends = np.cumsum(lens)
    places = np.arange(len(pairs))
    mirrored = (2 * ends - lens)[pairs] - 2 - places
    return np.asarray(np.where(places == ends[pairs] - 1, places, mirrored))


class RightToLeftGenerator:
    """Targets in their own order, from a network generating them from the right."""

    def __init__(self, generator: TargetGenerator) -> None:
        self._generator, self.shortlists = generator, generator.shortlists

    def generate(
        self,
        sources: Sequence[bytes],
        config: GenerationConfig,
        beginnings: Sequence[bytes] | None = None,
    ) -> Iterator[list[Generated]]:
        """See `TargetGenerator`; the beginnings are the last words of the targets."""
        begun = None if beginnings is None else turned(beginnings)
        for targets in self._generator.generate(sources, config, begun):
            yield [one._replace(words=one.words[::-1], places=one.places[::-1]) for one in targets]


class MatrixReader(Protocol):
    """A maker of attention matrices of pairs."""

    def matrices(self, pairs: Batch) -> Iterator[NDArray[np.float32]]:
        """The weights of each pair; see `tries.generation.AttentionReader`."""


class RightToLeftReader:
    """Attention matrices for targets in their own order, from a network reading them from the right."""

    def __init__(self, reader: MatrixReader) -> None:
        self._reader = reader

    def matrices(self, pairs: Batch) -> Iterator[NDArray[np.float32]]:
        """See `MatrixReader`; the last row is of the step after the first word."""
        for weights in self._reader.matrices(Batch(pairs.sources, turned(pairs.targets))):
            yield np.concatenate([weights[-2::-1], weights[-1:]])


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
