from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rescorer.contract.vocabulary import Vocabulary
from rescorer.training import word_counts
from rescorer.training.word_counts import WordCounts, WordList

WORDS = [b"b", b"</s>", b"a", b"ab", b"", b"\xff", b"<unk>"]


@pytest.mark.parametrize("at_once", [1, 3, 7, 100])
def test_words_by_number(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(word_counts, "WORDS_AT_ONCE", at_once)
    words = WordList.of(WORDS)
    assert [*words] == WORDS and len(words) == 7
    assert words.at(np.array([5, 0, 3])) == [b"\xff", b"b", b"ab"]
    assert [words.number_of(word).tolist() for word in (b"b", b"ab", b"<unk>", b"c")] == [
        [0],
        [3],
        [6],
        [],
    ]
    assert [*WordList.of([])] == []


@pytest.mark.parametrize("n_words", [0, 1, 2, 3, 4, 9])
def test_the_most_frequent_words_are_those_of_a_sorted_list(n_words: int) -> None:
    counter = Counter({b"b": 2, b"</s>": 9, b"a": 2, b"c": 5, b"d": 0, b"e": 1, b"<unk>": 3})
    found = WordCounts.of(counter)
    del counter[b"d"]
    assert Vocabulary(found.most_frequent(n_words)).words == (
        Vocabulary.from_counts(counter, n_words).words
    )
    assert found.n_running == 10 and found.falling().tolist() == [5, 2, 2, 1]


def test_words_that_are_not_there_have_no_counts() -> None:
    with pytest.raises(IndexError):
        WordList.of([b"a"]).at(np.array([1]))
