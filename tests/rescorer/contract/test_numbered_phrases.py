"""Phrases as numbers are the phrases as text."""

from __future__ import annotations

import numpy as np
import pytest

from rescorer.contract.batch import Batch
from rescorer.contract.numbered_phrases import (
    NumberedPhrases,
    NumberedWords,
    distinct,
    distinct_phrases,
)
from rescorer.contract.vocabulary import Vocabulary

TEXTS = [b"b a", b"", b"c", b"b a", b"a b", b"", b"</s>"]
WORDS = NumberedWords([b"a", b"b", b"c", b"</s>"])
NUMBERS = np.array([1, 0, 2, 1, 0, 0, 1, 3], np.int32)
PHRASES = NumberedPhrases(WORDS, NUMBERS, np.array([0, 2, 2, 3, 5, 7, 7, 8]))


def test_as_text() -> None:
    assert list(PHRASES) == TEXTS and len(PHRASES) == len(TEXTS)
    assert PHRASES[-1] == b"</s>" and PHRASES[1:4] == TEXTS[1:4]
    assert Batch(PHRASES, TEXTS).part(np.array([3, 2])).sources == [b"b a", b"c"]
    with pytest.raises(IndexError):
        PHRASES[7]


def test_different_ones() -> None:
    expected, expected_which = distinct(TEXTS)
    found, which = distinct_phrases(PHRASES)
    assert list(found) == expected and which.tolist() == expected_which.tolist()
    assert distinct_phrases(TEXTS)[0] == expected


def test_ids_are_those_of_the_text() -> None:
    """Of two vocabularies, each asked once."""
    for vocabulary in (Vocabulary([b"b"]), Vocabulary([b"c", b"a"])):
        for _ in range(2):
            for one, other in zip(
                vocabulary.encode_phrases(PHRASES), vocabulary.encode_phrases(TEXTS), strict=True
            ):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("items", "different", "which"),
    [
        ([b"b", b"a", b"b", b"c", b"a"], [b"b", b"a", b"c"], [0, 1, 0, 2, 1]),
        ([b"a"], [b"a"], [0]),
        ([], [], []),
    ],
)
def test_each_item_once_in_the_order_of_the_first(
    items: list[bytes], different: list[bytes], which: list[int]
) -> None:
    found, numbers = distinct(items)
    assert (found, numbers.tolist()) == (different, which)
