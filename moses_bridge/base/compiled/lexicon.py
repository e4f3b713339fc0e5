"""Words and their numbers in arrays searched and extended by compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import FREE, hash_bytes, n_slots, slot_of
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled

# Initial room, doubled when it is full: enough for a small table without growing.
FEWEST_WORDS, FEWEST_BYTES = 1024, 1 << 16


class LexiconTables(NamedTuple):
    """A hash table from a word's bytes to its number.

    Attributes:
        slots: the number of the word in a slot, FREE if there is none.
        starts, ends: where word i starts and ends in `text`.
        text: the words' bytes.
        sizes: the number of words and the number of bytes in use.
    """

    slots: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    text: NDArray[np.uint8]
    sizes: NDArray[np.int64]


class Lexicon:
    """Distinct words, numbered from 0 in order of first use."""

    def __init__(self, words: Sequence[bytes] = ()) -> None:
        n_bytes = sum(map(len, words))
        self.tables = _empty(
            max(FEWEST_WORDS, 2 * len(words)), np.zeros(max(FEWEST_BYTES, 2 * n_bytes), np.uint8)
        )
        if words:
            ends = np.cumsum([len(word) for word in words])
            _add_all(self.tables, np.frombuffer(bytearray(b"".join(words)), np.uint8), ends)

    def __len__(self) -> int:
        return int(self.tables.sizes[0])

    def grow(self) -> None:
        """Double the room."""
        old = self.tables
        n_words, n_bytes = (int(size) for size in old.sizes)
        self.tables = _empty(2 * len(old.starts), np.zeros(2 * len(old.text), np.uint8))
        _add_all(self.tables, old.text[:n_bytes], old.ends[:n_words])

    def make_room(self, n_bytes: int) -> None:
        """Grow until words totalling n_bytes bytes can be added."""
        while not (
            len(self) + n_bytes < len(self.tables.starts)
            and int(self.tables.sizes[1]) + n_bytes < len(self.tables.text)
        ):
            self.grow()

    def words(self) -> list[bytes]:
        """All words by number."""
        return words_of(self.tables)


def words_of(tables: LexiconTables) -> list[bytes]:
    """All words by number."""
    n_words = int(tables.sizes[0])
    starts, ends = tables.starts[:n_words], tables.ends[:n_words]
    text = tables.text[: ends.max(initial=0)].tobytes()
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def words_within(text: NDArray[np.uint8], n_words: int) -> LexiconTables:
    """A table of words left in place in a text; the caller entering one sets `starts` and `ends`."""
    return _empty(n_words, text)


def _empty(n_words: int, text: NDArray[np.uint8]) -> LexiconTables:
    return LexiconTables(
        np.full(n_slots(n_words), FREE, np.int32),
        np.zeros(n_words, np.int64),
        np.zeros(n_words, np.int64),
        text,
        np.zeros(2, np.int64),
    )


@inner
def find_slot(tables: LexiconTables, data: Any, start: int, end: int) -> int:
    """The slot of the word data[start:end], or the free slot for it.

    The bytes are compared here and not by `same_bytes`: numba would count references to the arrays passed on,
    taking three times as long as all the rest.
    """
    mask, length = len(tables.slots) - 1, end - start
    slot = slot_of(hash_bytes(data, start, end), len(tables.slots))
    while tables.slots[np.uintp(slot)] != FREE:
        word = np.uintp(tables.slots[np.uintp(slot)])
        if tables.ends[word] - tables.starts[word] == length:
            n_same = 0
            while n_same < length and (
                tables.text[np.uintp(tables.starts[word] + n_same)]
                == data[np.uintp(start + n_same)]
            ):
                n_same += 1
            if n_same == length:
                return int(slot)
        slot = (slot + 1) & mask
    return int(slot)


@inner
def find_word(tables: LexiconTables, data: Any, start: int, end: int) -> int:
    """The number of the word data[start:end], FREE if unknown."""
    return int(tables.slots[find_slot(tables, data, start, end)])


@inner
def add_word(tables: LexiconTables, data: Any, start: int, end: int) -> int:
    """The number of the word data[start:end], entered if new; see `has_room`."""
    slot = find_slot(tables, data, start, end)
    if tables.slots[slot] != FREE:
        return int(tables.slots[slot])
    word, first = tables.sizes[0], tables.sizes[1]
    for i in range(end - start):
        tables.text[np.uintp(first + i)] = data[np.uintp(start + i)]
    tables.starts[word], tables.ends[word] = first, first + end - start
    tables.slots[slot] = word
    tables.sizes[0] += 1
    tables.sizes[1] += end - start
    return int(word)


@inner
def has_room(tables: LexiconTables, n_bytes: int) -> bool:
    """Whether words totalling n_bytes bytes can be added."""
    n_words, n_used = tables.sizes[0], tables.sizes[1]
    return bool(n_words + n_bytes < len(tables.starts) and n_used + n_bytes < len(tables.text))


@compiled
def _add_all(tables: LexiconTables, data: Any, ends: Any) -> None:
    start = 0
    for end in ends:
        add_word(tables, data, start, end)
        start = end
