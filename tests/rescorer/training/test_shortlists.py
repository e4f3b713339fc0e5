from __future__ import annotations

from collections import Counter

import pytest

from rescorer.training.shortlists import choose_shortlists
from rescorer.training.word_counts import WordCounts

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
