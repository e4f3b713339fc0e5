"""The interface of scorers: values of phrase or sentence pairs, log-probabilities of words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.batch import Batch
from rescorer.contract.vocabulary import Vocabulary


class LogZ(NamedTuple):
    """Natural log of the softmax denominator over held-out text: mean and standard deviation over all words."""

    mean: float
    sd: float

    def __str__(self) -> str:
        return f"log Z held out: mean {self.mean:.4f}, s.d. {self.sd:.4f}"


class Scorer(Protocol):
    """A model of target text given source text."""

    @property
    def shortlist(self) -> Vocabulary | None:
        """The known target words; None where unknown words cannot be counted."""

    @property
    def needs_links(self) -> bool:
        """Whether a batch must have word links."""

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Natural log of p(target | source), </s> included, or another value, *Shape:* (n_pairs,).

        Words outside a shortlist are <unk>. A scorer without probabilities returns its own value.
        A pair's value does not depend on the other pairs of its batch (to 1e-5); equal neighbours are
        computed once.

        Raises:
            UnscorablePair: the scorer has no value for a pair.
        """


class WordLogProbs(NamedTuple):
    """Natural log p(word | the words before it, and the source), and the pair of each word, rising, (n_words,).

    Each pair's </s> comes after its words.
    """

    log_probs: NDArray[np.float64]
    pairs: NDArray[np.int64]


@runtime_checkable
class WordScorer(Protocol):
    """A model that predicts target text word by word."""

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        """Natural log-probabilities of all words; those of a pair add up to its value.

        Words outside a shortlist are <unk>.
        """


class ScoredTokens(NamedTuple):
    """The words or subwords of a text that a model predicts, in their order.

    Attributes:
        tokens: in UTF-8; the last one is the end of sentence, if the model predicts it.
        log_probs: natural log p of each, *Shape:* (n_tokens,).
    """

    tokens: list[bytes]
    log_probs: NDArray[np.float64]


class SubwordScorer(ABC):
    """A `Scorer` that predicts target text subword by subword, and knows every word.

    Attributes:
        note: the event and the condition of its log-probabilities, for records.
        predicts_end: whether the last token of each target is the end of sentence.
    """

    note: str
    shortlist = None
    needs_links = False
    predicts_end = True

    @abstractmethod
    def subword_log_probs(self, batch: Batch) -> list[ScoredTokens]:
        """The subwords of each target; their log-probabilities add up to the value of the pair.

        Raises:
            UnscorablePair: a side has more subwords than the model has positions.
        """

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """See `Scorer`."""
        found = self.subword_log_probs(batch) if len(batch) else []
        return np.array([own.log_probs.sum() for own in found], np.float64)


@dataclass(frozen=True)
class NamedScorer:
    """A scorer with its name for reports, the model's directory or the control, and its fingerprint.

    The fingerprint changes whenever the values may change; it guards `resume`.
    """

    name: str
    scorer: Scorer
    fingerprint: str
