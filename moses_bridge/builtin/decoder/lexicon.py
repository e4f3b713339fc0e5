"""Words and their numbers in arrays that compiled code can search and extend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.inner import inner


class LexiconTables(NamedTuple):
    """An open-addressing table from a word's bytes to its number.

    Attributes:
        slots: int32, the number of the word in a slot, -1 if free; a power of two of them.
        starts: int64, where word i starts in `text`.
        ends: int64, where it ends.
        text: uint8, the words' bytes.
        sizes: int64, the number of words and the number of bytes in use.
    """

    slots: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    text: NDArray[np.uint8]
    sizes: NDArray[np.int64]


class Lexicon:
    """Distinct words, numbered from 0 in the order in which they came."""

    def __init__(self, words: Sequence[bytes] = ()) -> None:
        n_bytes = sum(map(len, words))
        self.tables = _empty(max(1024, 2 * len(words)), max(1 << 16, 2 * n_bytes))
        if words:
            ends = np.cumsum([len(word) for word in words])
            _add_all(self.tables, np.frombuffer(bytearray(b"".join(words)), np.uint8), ends)

    def __len__(self) -> int:
        return int(self.tables.sizes[0])

    def grow(self) -> None:
        """Double the room."""
        old = self.tables
        n_words, n_bytes = (int(size) for size in old.sizes)
        self.tables = _empty(2 * len(old.starts), 2 * len(old.text))
        _add_all(self.tables, old.text[:n_bytes], old.ends[:n_words])

    def words(self) -> list[bytes]:
        """All words by number."""
        return words_of(self.tables)


def words_of(tables: LexiconTables) -> list[bytes]:
    """All words by number."""
    text = tables.text.tobytes()
    starts, ends = tables.starts.tolist(), tables.ends.tolist()
    return [text[starts[i] : ends[i]] for i in range(int(tables.sizes[0]))]


def _empty(n_words: int, n_bytes: int) -> LexiconTables:
    n_slots = 1 << (2 * n_words).bit_length()
    return LexiconTables(
        np.full(n_slots, -1, np.int32),
        np.zeros(n_words, np.int64),
        np.zeros(n_words, np.int64),
        np.zeros(n_bytes, np.uint8),
        np.zeros(2, np.int64),
    )


@inner
def _slot_of(tables: LexiconTables, data: Any, start: int, end: int) -> int:
    code = np.uint64(14695981039346656037)
    for i in range(start, end):
        code = (code ^ np.uint64(data[i])) * np.uint64(1099511628211)
    mask = len(tables.slots) - 1
    slot = int(np.int64((code ^ (code >> np.uint64(29))) & np.uint64(mask)))
    while tables.slots[slot] >= 0 and not _is_word(tables, tables.slots[slot], data, start, end):
        slot = (slot + 1) & mask
    return slot


@inner
def _is_word(tables: LexiconTables, word: int, data: Any, start: int, end: int) -> bool:
    first = tables.starts[word]
    if tables.ends[word] - first != end - start:
        return False
    for i in range(end - start):  # noqa: SIM110 (slow when compiled)
        if tables.text[first + i] != data[start + i]:
            return False
    return True


@inner
def find_word(tables: LexiconTables, data: Any, start: int, end: int) -> int:
    """The number of the word data[start:end], -1 if it is not there."""
    return int(tables.slots[_slot_of(tables, data, start, end)])


@inner
def add_word(tables: LexiconTables, data: Any, start: int, end: int) -> int:
    """The number of the word data[start:end], which is entered if need be; see `has_room`."""
    slot = _slot_of(tables, data, start, end)
    if tables.slots[slot] >= 0:
        return int(tables.slots[slot])
    word, first = tables.sizes[0], tables.sizes[1]
    for i in range(end - start):
        tables.text[first + i] = data[start + i]
    tables.starts[word], tables.ends[word] = first, first + end - start
    tables.slots[slot] = word
    tables.sizes[0] += 1
    tables.sizes[1] += end - start
    return int(word)


@inner
def has_room(tables: LexiconTables, n_bytes: int) -> bool:
    """Whether words of together n_bytes bytes can be added."""
    n_words, n_used = tables.sizes[0], tables.sizes[1]
    return bool(n_words + n_bytes < len(tables.starts) and n_used + n_bytes < len(tables.text))


@njit(cache=True)
def _add_all(tables: LexiconTables, data: Any, ends: Any) -> None:
    start = 0
    for end in ends:
        add_word(tables, data, start, end)
        start = end
