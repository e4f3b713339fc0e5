"""."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rescorer.contract.vocabulary import Vocabulary
from rescorer.training import word_counts
from rescorer.training.word_counts import WordCounts, WordList, choose_shortlists

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


# 100 running words of the source, 40 of the target; markers do not count.
SOURCE = WordCounts.of(
    Counter({b"the": 50, b"a": 30, b"cat": 12, b"dog": 7, b"emu": 1, b"</s>": 90, b"<unk>": 5})
)
TARGET = WordCounts.of(Counter({b"le": 20, b"un": 10, b"chat": 10}))


@pytest.mark.parametrize(
    ("n_words", "coverage", "expected", "covered"),
    [
        (2, 0.0, (2, 2), (0.8, 0.75)),
        (9, 0.0, (5, 3), (1.0, 1.0)),
        (9, 0.5, (1, 1), (0.5, 0.5)),
        (1, 0.51, (2, 2), (0.8, 0.75)),
        (1, 0.93, (4, 3), (0.99, 1.0)),
        (1, 1.0, (5, 3), (1.0, 1.0)),
    ],
)
def test_how_many_words(
    n_words: int, coverage: float, expected: tuple[int, int], covered: tuple[float, float]
) -> None:
    chosen = choose_shortlists([SOURCE, TARGET], n_words, coverage)
    source, target = chosen.shortlists
    assert source is not None
    assert (len(source) - 2, len(target) - 2) == expected
    assert source.words[2:] == (b"the", b"a", b"cat", b"dog", b"emu")[: expected[0]]
    assert chosen.covered == pytest.approx(covered)


def test_what_is_said_and_kept() -> None:
    chosen = choose_shortlists([SOURCE, TARGET], 1, 0.93)
    told = "4 source words (99.0% of the text), 3 target words (100.0% of the text)"
    assert told in str(chosen)
    assert chosen.record() == {
        "source": {"words": 4, "covered": 0.99},
        "target": {"words": 3, "covered": 1.0},
    }


def test_a_text_without_words_has_an_empty_shortlist() -> None:
    chosen = choose_shortlists([WordCounts.of(Counter(c)) for c in ({}, {b"</s>": 3})], 5, 0.5)
    assert [len(words) for words in chosen.shortlists if words] == [2, 2]
    assert chosen.covered == (0.0, 0.0)
