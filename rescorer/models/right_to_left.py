"""Models that predict the last word first, as scorers and generators of text in its own order.

What such a model adds to one from left to right is that it sees the end of a sentence before it must decide
on the beginning. The network itself is the same: it has been trained on turned sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.words import split_words
from rescorer.contract.scorer import Batch, Scorer, Shortlists, WordLogProbs, WordScorer
from rescorer.contract.vocabulary import Vocabulary

if TYPE_CHECKING:
    from rescorer.tries.attention_matrix import AttentionReader
    from rescorer.tries.generation import Generated, GenerationConfig, Generator


def turned(sentences: Sequence[bytes]) -> list[bytes]:
    """The words of each sentence from the last one to the first."""
    return list(turned_lines(sentences))


def turned_lines(sentences: Iterable[bytes]) -> Iterator[bytes]:
    """The same of a long text."""
    return (b" ".join(split_words(sentence)[::-1]) for sentence in sentences)


class SentenceScorer(Scorer, WordScorer, Protocol):
    """A scorer of sentences that knows their words' values."""


class RightToLeft:
    """Natural log p(target | source), or p(target), of a network that was trained on turned targets.

    Args:
        scorer: of turned targets, without word links.
    """

    needs_links = False

    def __init__(self, scorer: SentenceScorer) -> None:
        self.scorer = scorer

    @property
    def shortlist(self) -> Vocabulary | None:
        """See `contract.Scorer`."""
        return self.scorer.shortlist

    def values(self, asked: Batch) -> NDArray[np.float64]:
        """See `contract.Scorer`."""
        return self.scorer.values(Batch(asked.sources, turned(asked.targets)))

    def word_log_probs(self, asked: Batch) -> WordLogProbs:
        """Natural log of each word given those behind it, at the place of the word.

        What stands last of each pair, for </s>, is log p of ending after the sentence's first word.
        """
        found = self.scorer.word_log_probs(Batch(asked.sources, turned(asked.targets)))
        return found._replace(log_probs=found.log_probs[_turned_words(found.pairs)])


def _turned_words(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the value of each word stands in turned sentences; the last one of a pair is </s>, which stays."""
    lens = np.bincount(pairs)
    ends = np.cumsum(lens)
    places = np.arange(len(pairs))
    mirrored = (2 * ends - lens)[pairs] - 2 - places
    return np.asarray(np.where(places == ends[pairs] - 1, places, mirrored))


class RightToLeftGenerator:
    """Targets of sources, in their own order, from a network that goes through them from the right.

    Args:
        generator: of turned targets.
    """

    def __init__(self, generator: Generator[Any, Any, Any, Any]) -> None:
        self._generator = generator

    @property
    def shortlists(self) -> Shortlists:
        """Of the network."""
        return self._generator.shortlists

    def generate(
        self,
        sources: Sequence[bytes],
        config: GenerationConfig,
        beginnings: Sequence[bytes] | None = None,
    ) -> Iterator[list[Generated]]:
        """See `Generator.generate`; what is begun with are the last words of the targets."""
        begun = None if beginnings is None else turned(beginnings)
        for targets in self._generator.generate(sources, config, begun):
            yield [one._replace(words=one.words[::-1], places=one.places[::-1]) for one in targets]


class RightToLeftReader:
    """Attention matrices of a network that goes through targets from the right, for targets in their own order.

    Args:
        reader: of turned targets.
    """

    def __init__(self, reader: AttentionReader[Any, Any, Any, Any]) -> None:
        self._reader = reader

    def matrices(self, pairs: Batch) -> Iterator[NDArray[np.float32]]:
        """See `AttentionReader.matrices`; the last row is of the step behind the first word."""
        for weights in self._reader.matrices(Batch(pairs.sources, turned(pairs.targets))):
            yield np.concatenate([weights[-2::-1], weights[-1:]])
