"""."""

from __future__ import annotations

import pytest

from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.formats.word_numbers import word_numbers
from moses_bridge.formats.words import split_phrases

WORDS = [b"a", b"bb", b"\xc3\xa9", b"a\x0bb"]


def test_by_hand() -> None:
    phrases = [b"bb a", b"", b" \xc3\xa9\ta ", b"  ", b"aa a\x0bb b"]
    numbers, lens = word_numbers(phrases, Lexicon(WORDS).tables)
    assert numbers.tolist() == [1, 0, 2, 0, -1, 3, -1]
    assert lens.tolist() == [2, 0, 2, 0, 3]


@pytest.mark.parametrize("phrases", [[], [b""], [b"x"], [b"a \t a", b"\tbb  "]])
def test_phrases_are_split_as_elsewhere(phrases: list[bytes]) -> None:
    numbers, lens = word_numbers(phrases, Lexicon(WORDS).tables)
    words, expected = split_phrases(phrases)
    known = {word: number for number, word in enumerate(WORDS)}
    assert numbers.tolist() == [known.get(word, -1) for word in words]
    assert lens.tolist() == expected.tolist()
