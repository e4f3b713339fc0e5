from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.base.compiled.hash_table import FREE
from moses_bridge.base.compiled.lexicon import (
    Lexicon,
    LexiconTables,
    add_word,
    find_slot,
    find_word,
    has_room,
    words_of,
    words_within,
)

WORDS = [b"a", b"", b"ab", b"b", b"\xff\x00", b"a ", b"\xc3\xa9", b"abc" * 50]


@njit
def find(tables: LexiconTables, data: Any, start: int, end: int) -> int:
    return find_word(tables, data, start, end)


@njit
def enter(tables: LexiconTables, data: Any) -> int:
    return add_word(tables, data, 0, len(data))


@njit
def room(tables: LexiconTables, n_bytes: int) -> bool:
    return has_room(tables, n_bytes)


@njit
def slot(tables: LexiconTables, data: Any, start: int, end: int) -> int:
    return find_slot(tables, data, start, end)


def as_array(text: bytes) -> Any:
    return np.frombuffer(text, np.uint8)


def test_words_have_the_numbers_in_which_they_came() -> None:
    lexicon = Lexicon(WORDS)
    assert lexicon.words() == WORDS
    for number, word in enumerate(WORDS):
        text = b"<" + word + b">"
        assert find(lexicon.tables, as_array(text), 1, len(text) - 1) == number
    assert find(lexicon.tables, as_array(b"abcabc"), 0, 6) == FREE
    assert len(Lexicon()) == 0 and Lexicon().words() == []


def test_numbers_stay_when_the_room_grows() -> None:
    lexicon, numbers = Lexicon([b"first"]), {b"first": 0}
    generator = np.random.default_rng(2)
    for number in generator.integers(0, 4000, 12_000):
        word = b"w%d" % number * 3
        while not room(lexicon.tables, len(word)):
            lexicon.grow()
        assert enter(lexicon.tables, as_array(word)) == numbers.setdefault(word, len(numbers))
    assert lexicon.words() == list(numbers)
    assert len(lexicon) == len(numbers) > 3000


def test_words_may_stay_in_their_text() -> None:
    text = as_array(b"one two one three")
    tables = words_within(text, 3)
    for number, (start, end) in enumerate([(0, 3), (4, 7), (12, 17)]):
        place = slot(tables, text, start, end)
        assert tables.slots[place] == FREE
        tables.slots[place], tables.starts[number], tables.ends[number] = number, start, end
    tables.sizes[0] = 3
    assert tables.slots[slot(tables, text, 8, 11)] == 0
    assert words_of(tables) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("n_bytes", [1 << 16, 1 << 20])
def test_what_does_not_fit_is_told_before_it_is_entered(n_bytes: int) -> None:
    assert not room(Lexicon().tables, n_bytes)


def test_room_is_made_for_words_that_come() -> None:
    words = Lexicon(WORDS)
    words.make_room(100_000)
    assert room(words.tables, 100_000) and words.words() == WORDS
    tables = words.tables
    words.make_room(50_000)
    assert words.tables is tables
