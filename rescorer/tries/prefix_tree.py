"""Prefix trees over a block of phrases, each level one batch for a network.

Notation: n rows (phrases), G groups (roots), level l holds the nodes of depth l + 1: the distinct
(group, first l + 1 words). A node's state comes from its parent's state and its own word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_NODE = -1


@dataclass(frozen=True)
class Level:
    """The words of the nodes of one depth, by parent and then by word, so siblings are adjacent, (n_nodes,).

    The parent of each node is its index in the level before (of level 0: the group).
    """

    words: NDArray[np.int32]
    parents: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class PrefixTree:
    """The distinct prefixes of the rows of a block.

    Attributes:
        n_groups: number of roots.
        levels: the nodes by depth; there are as many levels as words in the longest row.
        paths: the node of each row in each level, -1 after its end, *Shape:* (n, n_levels).
        lens: words in each row, *Shape:* (n,).
        groups: the root of each row, *Shape:* (n,).
    """

    n_groups: int
    levels: tuple[Level, ...]
    paths: NDArray[np.int64]
    lens: NDArray[np.int64]
    groups: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        """Nodes without the roots."""
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """Nodes of each level."""
        return [len(level) for level in self.levels]

    @property
    def words(self) -> NDArray[np.int32]:
        """The words of all nodes, level by level, *Shape:* (n_nodes,)."""
        return np.concatenate([level.words for level in self.levels] or [np.empty(0, np.int32)])

    @property
    def last_nodes(self) -> NDArray[np.int64]:
        """The last node of each row (none empty), numbered over all levels, *Shape:* (n,)."""
        starts = np.cumsum([0, *self.sizes])
        last = self.lens - 1
        return np.asarray(starts[last] + self.paths[np.arange(len(last)), last])

    def rows_ending(self, depth: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of exactly depth words, and the node (at depth 0: the group) where each ends."""
        rows = np.flatnonzero(self.lens == depth)
        return rows, self.groups[rows] if depth == 0 else self.paths[rows, depth - 1]

    def ending(self, depth: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Total weight of the rows that end in each node of level depth - 1, of depth 0 in each root."""
        rows, nodes = self.rows_ending(depth)
        return _sums(nodes, weights[rows], self._n_nodes_at(depth))

    def through(self, depth: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Total weight of the rows whose path includes each node; see `ending`."""
        if depth == 0:
            return _sums(self.groups, weights, self.n_groups)
        rows = np.flatnonzero(self.lens >= depth)
        return _sums(self.paths[rows, depth - 1], weights[rows], self._n_nodes_at(depth))

    def _n_nodes_at(self, depth: int) -> int:
        return self.n_groups if depth == 0 else len(self.levels[depth - 1])


def _sums(
    nodes: NDArray[np.int64], weights: NDArray[np.float64], n_nodes: int
) -> NDArray[np.float64]:
    return np.bincount(nodes, weights, n_nodes).astype(np.float64)


def build_prefix_tree(
    ids: NDArray[np.int32],
    lens: NDArray[np.int64],
    groups: NDArray[np.int64] | None = None,
    n_groups: int | None = None,
) -> PrefixTree:
    """Find the distinct prefixes of the rows.

    Args:
        ids: word ids >= 0; ids after a row's length are ignored, *Shape:* (n, max_len).
        lens: words in each row, *Shape:* (n,).
        groups: root of each row (for targets: their source), None for one root, *Shape:* (n,).
        n_groups: number of roots, None for the highest group plus 1.

    Returns:
        The tree; it depends on the set of prefixes only, not on the order of the rows, but for
        `paths`, which follow the rows.

    Raises:
        ValueError: a group is not below n_groups, or a word id is negative.
    """
    n = len(ids)
    groups = np.zeros(n, np.int64) if groups is None else groups.astype(np.int64)
    lens = lens.astype(np.int64)
    if n_groups is None:
        n_groups = int(groups.max(initial=0)) + 1
    elif int(groups.max(initial=-1)) >= n_groups:
        raise ValueError(f"group {groups.max()} of {n_groups}")
    n_levels = int(lens.max(initial=0))
    n_words = int(ids.max(initial=0)) + 1
    paths = np.full((n, n_levels), NO_NODE, np.int64)
    levels: list[Level] = []
    parents = groups
    for depth in range(n_levels):
        rows = np.flatnonzero(lens > depth)
        if ids[rows, depth].min() < 0:
            raise ValueError("a word id is negative")
        keys, nodes = np.unique(parents[rows] * n_words + ids[rows, depth], return_inverse=True)
        levels.append(Level((keys % n_words).astype(np.int32), keys // n_words))
        paths[rows, depth] = nodes
        parents = paths[:, depth]
    return PrefixTree(n_groups, tuple(levels), paths, lens, groups)
