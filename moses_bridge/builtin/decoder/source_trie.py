"""The source phrases of a table as a trie of word numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import FREE, find_key
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled

ROOT = 0
NO_NODE = -1


class TrieTables(NamedTuple):
    """A hash table from (node, word) to the child node; node 0 is the root.

    Attributes:
        keys: int64, node << 32 | word; FREE in a free slot.
        children: int32, the child of the key in the same slot.
        sizes: (1,) int64, the number of nodes.
    """

    keys: NDArray[np.int64]
    children: NDArray[np.int32]
    sizes: NDArray[np.int64]


class SourceTrie:
    """A trie of phrases, each phrase a node; a node's number does not change as the trie grows."""

    def __init__(self, n_slots: int = 1 << 12) -> None:
        self.tables = TrieTables(
            np.full(n_slots, FREE, np.int64), np.zeros(n_slots, np.int32), np.ones(1, np.int64)
        )

    def __len__(self) -> int:
        return int(self.tables.sizes[0])

    def grow(self) -> None:
        """Double the size of the hash table."""
        old = self.tables
        self.tables = SourceTrie(2 * len(old.keys)).tables
        _copy(old, self.tables)


@inner
def _key(node: int, word: int) -> int:
    """Both numbers in one; each has at most 31 bits."""
    return int((np.int64(node) << 32) | np.int64(word))


@inner
def child_of(tables: TrieTables, node: int, word: int) -> int:
    """The node of a phrase with one more word, NO_NODE if missing."""
    slot = find_key(tables.keys, _key(node, word))
    return int(tables.children[slot]) if tables.keys[slot] != FREE else NO_NODE


@inner
def add_child(tables: TrieTables, node: int, word: int) -> int:
    """The node of a phrase with one more word, added if missing; see `trie_has_room`."""
    key = _key(node, word)
    slot = find_key(tables.keys, key)
    if tables.keys[slot] == FREE:
        tables.keys[slot] = key
        tables.children[slot] = tables.sizes[0]
        tables.sizes[0] += 1
    return int(tables.children[slot])


@inner
def trie_has_room(tables: TrieTables, n_nodes: int) -> bool:
    """Whether n_nodes more nodes can be added."""
    return bool(2 * (tables.sizes[0] + n_nodes) < len(tables.keys))


@compiled
def _copy(old: TrieTables, new: TrieTables) -> None:
    for slot in range(len(old.keys)):
        if old.keys[slot] != FREE:
            place = find_key(new.keys, old.keys[slot])
            new.keys[place] = old.keys[slot]
            new.children[place] = old.children[slot]
    new.sizes[0] = old.sizes[0]


def children_of_root(tables: TrieTables) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The first words of phrases, and the node of each one alone, *Shape:* (n_words,) both."""
    is_child = (tables.keys != FREE) & (tables.keys >> 32 == ROOT)
    return tables.keys[is_child], tables.children[is_child]


def longest_phrase(tables: TrieTables) -> int:
    """Number of words of the longest phrase."""
    return int(phrase_lengths(tables).max())


@compiled
def phrase_lengths(tables: TrieTables) -> Any:
    """Number of words of each node's phrase, *Shape:* (n_nodes,) int64."""
    # a child's number is greater than its parent's
    parents = np.zeros(tables.sizes[0], np.int64)
    for slot in range(len(tables.keys)):
        if tables.keys[slot] != FREE:
            parents[tables.children[slot]] = tables.keys[slot] >> 32
    depths = np.zeros(len(parents), np.int64)
    for node in range(1, len(parents)):
        depths[node] = depths[parents[node]] + 1
    return depths
