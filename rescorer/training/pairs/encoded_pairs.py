"""Phrase pairs or sentence pairs as word ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as word ids.

    Attributes:
        sources: ids, </s> after the words, *Shape:* (n_sources, source_len + 1).
        source_lens: *Shape:* (n_sources,).
        targets: *Shape:* (n_pairs, target_len + 1).
        target_lens: *Shape:* (n_pairs,).
        groups: the source of each pair, *Shape:* (n_pairs,).
        weights: *Shape:* (n_pairs,).
    """

    sources: NDArray[np.int32]
    source_lens: NDArray[np.int64]
    targets: NDArray[np.int32]
    target_lens: NDArray[np.int64]
    groups: NDArray[np.int64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.groups)

    def n_words(self, rows: NDArray[np.int64]) -> float:
        """The weight of the target words of some pairs, including </s>."""
        return float(self.weights[rows] @ (self.target_lens[rows] + 1))

    def part(self, rows: NDArray[np.int64]) -> EncodedPairs:
        """Some of the pairs, with their sources."""
        sources, groups = np.unique(self.groups[rows], return_inverse=True)
        return EncodedPairs(
            sources=self.sources[sources],
            source_lens=self.source_lens[sources],
            targets=self.targets[rows],
            target_lens=self.target_lens[rows],
            groups=groups,
            weights=self.weights[rows],
        )
