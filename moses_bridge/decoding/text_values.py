"""Values of whole texts by a neural model seeing only previous words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import UserError
from moses_bridge.builtin.decoder.ngram_memo import NgramMemo
from moses_bridge.formats.ngram_scorer import NgramScorer
from moses_bridge.formats.words import split_words


class TextValues:
    """Natural log-probabilities of texts, their ends included; each n-gram is scored once.

    The texts of an n-best list, and the lists of successive decodings, share most of their n-grams.

    Raises:
        UserError: the model sees the source, and words without links are not enough for it.
    """

    def __init__(self, scorer: NgramScorer) -> None:
        if scorer.reads_source:
            raise UserError(
                "found a model that sees the source, expected one that sees the text alone; ask it during the "
                "search, or for lists with links by `rescorer nbest`"
            )
        self._scorer = scorer
        self._memo = NgramMemo(lambda ngrams: partial(scorer.log_probs, ngrams))
        self._ids: dict[bytes, int] = {}

    def __call__(self, texts: Sequence[bytes]) -> NDArray[np.float64]:
        """The value of each text, *Shape:* (n_texts,); UserError if the model fails, or one is not finite.

        Calls with some thousand texts are most efficient.
        """
        if not texts:
            return np.zeros(0)
        split = [split_words(text) for text in texts]
        new = [*{word for words in split for word in words}.difference(self._ids)]
        self._ids.update(zip(new, self._scorer.encode(new).tolist(), strict=True))
        ngrams = np.concatenate([self._ngrams(words) for words in split])
        starts = np.cumsum([0, *(len(words) + 1 for words in split[:-1])])
        return np.add.reduceat(self._memo(ngrams).astype(np.float64), starts)

    def _ngrams(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """The n-grams of a text, one for each word and its end, *Shape:* (n_words + 1, order)."""
        scorer = self._scorer
        before = [scorer.start_id] * (scorer.order - 1)
        numbers = [*before, *(self._ids[word] for word in words), scorer.end_id]
        return np.lib.stride_tricks.sliding_window_view(np.array(numbers, np.int32), scorer.order)
