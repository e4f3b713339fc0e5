"""A feed-forward language model as the scorer of n-grams that the search asks: `moses_bridge.ngram_scorer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.ngram_scorer import NO_ID, n_places
from rescorer.softmax.output_layer import OutputLayer
from rescorer.vocabulary import Vocabulary
from rescorer.windows.scoring import window_log_probs
from rescorer.windows.windowed import Windowed


@dataclass(frozen=True)
class WindowNgramScorer:
    """Natural log p(word | previous words); words outside the shortlist are <unk>.

    Attributes:
        network: sees previous words alone.
        exact: its output layer.
        estimated: the same with a quicker denominator, for the search to go by.
        shortlist: the words.
        order: words of an n-gram, the one that is scored included.
        start_id: fills the places before the first word of a sentence.
    """

    network: Windowed
    exact: OutputLayer
    estimated: OutputLayer
    shortlist: Vocabulary
    order: int
    start_id: int

    reads_source = False
    open_id = NO_ID

    @property
    def end_id(self) -> int:
        """The number of the end of a sentence."""
        return self.shortlist.end_id

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`."""
        return self.shortlist.encode_words(words)

    def read(self, sources: Sequence[bytes]) -> int:
        """See `NgramScorer`; the source is ignored."""
        return n_places(sources)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return window_log_probs(self.network, self.exact, ngrams).astype(np.float32)

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return window_log_probs(self.network, self.estimated, ngrams).astype(np.float32)
