"""Values of whole texts against sums by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import UserError
from moses_bridge.decoding.text_values import TextValues
from moses_bridge.formats.ngram_scorer import NoScorer

WORDS = b"a b c d".split()
START, END = 4, 5


class RandomScorer(NoScorer):
    """A table of random values of trigrams."""

    order, start_id, end_id = 3, START, END

    def __init__(self) -> None:
        super().__init__()
        self.table = np.random.default_rng(5).normal(size=(6, 6, 6)).astype(np.float32)

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        return np.array([WORDS.index(word) for word in words], np.int32)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.table[tuple(ngrams.T)]


def by_hand(scorer: RandomScorer, text: bytes) -> float:
    words = [START, START, *(WORDS.index(word) for word in text.split()), END]
    return float(
        sum(scorer.table[words[i - 2], words[i - 1], words[i]] for i in range(2, len(words)))
    )


def test_values_are_sums_over_all_words_and_the_end() -> None:
    scorer, texts = RandomScorer(), [b"a b", b"", b"d d d a", b"a b", b"c"]
    expected = [by_hand(scorer, text) for text in texts]
    values = TextValues(scorer)
    assert values(texts) == pytest.approx(expected, abs=1e-5)
    assert values(texts[::-1]) == pytest.approx(expected[::-1], abs=1e-5)


def test_no_texts_have_no_values() -> None:
    assert TextValues(RandomScorer())([]).shape == (0,)


def test_a_model_that_sees_the_source_is_refused() -> None:
    with pytest.raises(UserError, match="sees the source"):
        TextValues(NoScorer(reads_source=True))


def test_a_value_that_is_no_number_is_refused() -> None:
    scorer = RandomScorer()
    scorer.table[:] = np.nan
    with pytest.raises(UserError, match="not a finite number"):
        TextValues(scorer)([b"a"])
