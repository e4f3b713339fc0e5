from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.builtin.decoder.source_trie import (
    NO_NODE,
    ROOT,
    SourceTrie,
    TrieTables,
    add_child,
    child_of,
    longest_phrase,
    trie_has_room,
)


@njit
def enter(tables: TrieTables, phrase: Any) -> int:
    node = ROOT
    for word in phrase:
        node = add_child(tables, node, word)
    return node


@njit
def find(tables: TrieTables, phrase: Any) -> int:
    node = ROOT
    for word in phrase:
        if node != NO_NODE:
            node = child_of(tables, node, word)
    return node


@njit
def has_room(tables: TrieTables, n_nodes: int) -> bool:
    return trie_has_room(tables, n_nodes)


def test_phrases_have_nodes_of_their_own_that_stay_when_the_trie_grows() -> None:
    generator = np.random.default_rng(3)
    trie, nodes = SourceTrie(16), dict[tuple[int, ...], int]()
    for _ in range(3000):
        phrase = generator.integers(0, 12, generator.integers(1, 6)).astype(np.int32)
        while not has_room(trie.tables, len(phrase)):
            trie.grow()
        assert enter(trie.tables, phrase) == nodes.setdefault(
            tuple(phrase.tolist()), enter(trie.tables, phrase)
        )
    prefixes = {phrase[:n] for phrase in nodes for n in range(1, len(phrase) + 1)}
    assert len(trie) == len(prefixes) + 1
    assert len(set(nodes.values())) == len(nodes)
    for phrase, node in nodes.items():
        assert find(trie.tables, np.array(phrase, np.int32)) == node
    assert longest_phrase(trie.tables) == max(map(len, nodes)) == 5


@pytest.mark.parametrize("phrase", [(7,), (1, 1), (1, 2, 3), (2**31 - 1,)])
def test_what_is_not_there_has_no_node(phrase: tuple[int, ...]) -> None:
    trie = SourceTrie()
    enter(trie.tables, np.array((1, 2), np.int32))
    assert find(trie.tables, np.array(phrase, np.int32)) == NO_NODE
    assert find(trie.tables, np.zeros(0, np.int32)) == ROOT


def test_an_empty_trie() -> None:
    assert (len(SourceTrie()), longest_phrase(SourceTrie().tables)) == (1, 0)
