"""The source phrases of a table as a trie of word numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.inner import inner

ROOT = 0


class TrieTables(NamedTuple):
    """An open-addressing table from (node, word) to the child node; node 0 is the root.

    Attributes:
        keys: int64, node << 32 | word; -1 where free.
        children: int32, the child of the key in the same slot.
        sizes: int64, one value: the number of nodes.
    """

    keys: NDArray[np.int64]
    children: NDArray[np.int32]
    sizes: NDArray[np.int64]


class SourceTrie:
    """Phrases of words, each phrase a node; a node's number does not change as the trie grows."""

    def __init__(self, n_slots: int = 1 << 12) -> None:
        self.tables = TrieTables(
            np.full(n_slots, -1, np.int64), np.zeros(n_slots, np.int32), np.ones(1, np.int64)
        )

    def __len__(self) -> int:
        return int(self.tables.sizes[0])

    def grow(self) -> None:
        """Double the room."""
        old = self.tables
        self.tables = SourceTrie(2 * len(old.keys)).tables
        _copy(old, self.tables)


@inner
def _slot_of(tables: TrieTables, key: int) -> int:
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mask = len(tables.keys) - 1
    slot = int(np.int64(mixed) & mask)
    while tables.keys[slot] != key and tables.keys[slot] != -1:
        slot = (slot + 1) & mask
    return slot


@inner
def child_of(tables: TrieTables, node: int, word: int) -> int:
    """The node of a phrase with one more word, -1 if there is none."""
    slot = _slot_of(tables, (np.int64(node) << 32) | np.int64(word))
    return int(tables.children[slot]) if tables.keys[slot] != -1 else -1


@inner
def add_child(tables: TrieTables, node: int, word: int) -> int:
    """The node of a phrase with one more word, made if need be; see `trie_has_room`."""
    key = (np.int64(node) << 32) | np.int64(word)
    slot = _slot_of(tables, key)
    if tables.keys[slot] == -1:
        tables.keys[slot] = key
        tables.children[slot] = tables.sizes[0]
        tables.sizes[0] += 1
    return int(tables.children[slot])


@inner
def trie_has_room(tables: TrieTables, n_nodes: int) -> bool:
    """Whether so many nodes can be added."""
    return bool(2 * (tables.sizes[0] + n_nodes) < len(tables.keys))


@njit(cache=True)
def _copy(old: TrieTables, new: TrieTables) -> None:
    for slot in range(len(old.keys)):
        if old.keys[slot] != -1:
            place = _slot_of(new, old.keys[slot])
            new.keys[place] = old.keys[slot]
            new.children[place] = old.children[slot]
    new.sizes[0] = old.sizes[0]


def longest_phrase(tables: TrieTables) -> int:
    """Words of the longest phrase."""
    return int(_depths(tables).max())


@njit(cache=True)
def _depths(tables: TrieTables) -> Any:
    """Words of each node's phrase; a child's number is greater than its parent's."""
    parents = np.zeros(tables.sizes[0], np.int64)
    for slot in range(len(tables.keys)):
        if tables.keys[slot] != -1:
            parents[tables.children[slot]] = tables.keys[slot] >> 32
    depths = np.zeros(len(parents), np.int64)
    for node in range(1, len(parents)):
        depths[node] = depths[parents[node]] + 1
    return depths
