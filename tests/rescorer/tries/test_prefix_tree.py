from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rescorer.tries.prefix_tree import PrefixTree, build_prefix_tree

Rows = list[tuple[int, tuple[int, ...]]]
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 4), max_size=5).map(tuple)), max_size=30
)


def tree_of(rows: Rows) -> PrefixTree:
    lens = np.array([len(words) for _, words in rows], np.int64)
    ids = np.full((len(rows), max(lens, default=0) + 1), 7, np.int32)
    for row, (_, words) in enumerate(rows):
        ids[row, : len(words)] = words
    return build_prefix_tree(ids, lens, np.array([group for group, _ in rows], np.int64), 4)


def prefix_of(tree: PrefixTree, depth: int, node: int) -> tuple[int, tuple[int, ...]]:
    words: tuple[int, ...] = ()
    for level in reversed(tree.levels[:depth]):
        words = (int(level.words[node]), *words)
        node = int(level.parents[node])
    return node, words


def by_prefix(
    tree: PrefixTree, depth: int, values: NDArray[np.float64]
) -> dict[tuple[int, tuple[int, ...]], float]:
    return {prefix_of(tree, depth, node): value for node, value in enumerate(values) if value}


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_nodes_are_the_distinct_prefixes(rows: Rows) -> None:
    tree = tree_of(rows)
    expected = {(g, words[:n]) for g, words in rows for n in range(1, len(words) + 1)}
    found = [
        prefix_of(tree, depth, node)
        for depth in range(1, len(tree.levels) + 1)
        for node in range(len(tree.levels[depth - 1]))
    ]
    assert sorted(found) == sorted(expected)
    assert tree.n_nodes == len(expected)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_paths_spell_the_rows(rows: Rows) -> None:
    tree = tree_of(rows)
    for row, (group, words) in enumerate(rows):
        for depth in range(1, len(tree.levels) + 1):
            node = int(tree.paths[row, depth - 1])
            if depth > len(words):
                assert node == -1
            else:
                assert prefix_of(tree, depth, node) == (group, words[:depth])


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_weights_through_and_ending(rows: Rows) -> None:
    tree = tree_of(rows)
    weights = np.arange(1.0, len(rows) + 1)
    for depth in range(len(tree.levels) + 1):
        through: Counter[tuple[int, tuple[int, ...]]] = Counter()
        ending: Counter[tuple[int, tuple[int, ...]]] = Counter()
        for (group, words), weight in zip(rows, weights, strict=True):
            if len(words) >= depth:
                through[group, words[:depth]] += weight
            if len(words) == depth:
                ending[group, words] += weight
        assert by_prefix(tree, depth, tree.through(depth, weights)) == through
        assert by_prefix(tree, depth, tree.ending(depth, weights)) == ending


def test_levels_do_not_depend_on_the_order_of_rows() -> None:
    rows: Rows = [(1, (2, 3)), (0, (2,)), (0, (2, 1)), (1, (2, 3)), (3, ()), (0, (0, 9))]
    tree, reverse = tree_of(rows), tree_of(rows[::-1])
    for level, other in zip(tree.levels, reverse.levels, strict=True):
        np.testing.assert_array_equal(level.words, other.words)
        np.testing.assert_array_equal(level.parents, other.parents)
    np.testing.assert_array_equal(tree.paths, reverse.paths[::-1])


@pytest.mark.parametrize("depth", [0, 1])
def test_siblings_stand_together(depth: int) -> None:
    tree = tree_of([(3, (1, 4)), (0, (1, 0)), (3, (0, 2)), (0, (1, 5)), (3, (1, 0))])
    assert (np.diff(tree.levels[depth].parents) >= 0).all()


def test_words_and_last_nodes_by_hand() -> None:
    """Two roots; level 0: 2 and 5 of root 0, 5 of root 1; level 1: 3 behind 5 of root 0, 2 of root 1."""
    ids = np.array([[5, 3], [2, 9], [5, 2], [5, 9], [5, 3]], np.int32)
    lens, groups = np.array([2, 1, 2, 1, 2]), np.array([0, 0, 1, 0, 0])
    tree = build_prefix_tree(ids, lens, groups)
    assert (tree.n_groups, tree.sizes, tree.n_nodes) == (2, [3, 2], 5)
    assert tree.words.tolist() == [2, 5, 5, 3, 2]
    assert tree.last_nodes.tolist() == [3, 0, 4, 1, 3]
    assert [level.parents.tolist() for level in tree.levels] == [[0, 0, 1], [1, 2]]
    assert tree.paths.tolist() == [[1, 0], [0, -1], [2, 1], [1, -1], [1, 0]]
    rows, nodes = tree.rows_ending(1)
    assert (rows.tolist(), nodes.tolist()) == ([1, 3], [0, 1])
    weights = np.array([1.0, 2, 4, 8, 16])
    assert [tree.ending(depth, weights).tolist() for depth in range(3)] == [
        [0, 0],
        [2, 8, 0],
        [17, 4],
    ]


def test_more_roots_than_rows_have_and_words_of_no_level() -> None:
    ids, lens = np.zeros((2, 1), np.int32), np.zeros(2, np.int64)
    tree = build_prefix_tree(ids, lens, np.array([1, 2]), 5)
    assert (tree.n_groups, tree.n_nodes, tree.words.tolist()) == (5, 0, [])
    assert tree.through(0, np.array([0.5, 0.25])).tolist() == [0, 0.5, 0.25, 0, 0]
    assert build_prefix_tree(ids[:0], lens[:0], lens[:0], 0).n_groups == 0
    assert build_prefix_tree(ids, lens, np.array([1, 3])).n_groups == 4


def test_no_rows_and_one_root() -> None:
    empty = build_prefix_tree(np.zeros((0, 3), np.int32), np.zeros(0, np.int64))
    assert empty.levels == () and empty.n_groups == 1
    tree = build_prefix_tree(np.array([[5], [5], [2]], np.int32), np.ones(3, np.int64))
    assert tree.levels[0].words.tolist() == [2, 5]
    assert tree.paths[:, 0].tolist() == [1, 1, 0]


def test_group_outside_the_roots_is_refused() -> None:
    with pytest.raises(ValueError, match="group 2"):
        build_prefix_tree(np.zeros((1, 1), np.int32), np.ones(1, np.int64), np.array([2]), 2)


def test_negative_word_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        build_prefix_tree(np.array([[3, -1]], np.int32), np.array([2]))
