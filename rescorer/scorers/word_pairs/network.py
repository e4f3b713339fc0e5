"""Weights of pairs of a source and a target word, the linear rival of networks that see bags of words.

    v(s, t) = sum_i sum_j w(s_i, t_j)

These are the word pair features of Watanabe et al. (2007), of all words of a phrase pair instead of the linked
ones. A pair's weight stands in a place that a hash gives (Weinberger et al. 2009); pairs that fall together
share it.

Notation: n phrase pairs; S sources and T targets, which are different; U and W different words of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast, AtMost, check_limits

# Word ids of phrases, *Shape:* (n, max_len or more), and words of each, *Shape:* (n,).
Phrases = tuple[NDArray[np.int32], NDArray[np.int64]]
# 2^64 divided by the golden ratio: products with it are spread evenly (Knuth, volume 3, section 6.4).
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
WORD_PAIRS_AT_ONCE = 2**21


@dataclass(frozen=True)
class WordPairsConfig:
    """Size of a model of word pairs.

    Attributes:
        hash_bits: binary logarithm of the number of weights.
    """

    hash_bits: Annotated[int, AtLeast(1), AtMost(30)] = 20

    def __post_init__(self) -> None:
        check_limits(self)


class WordPairs(nn.Module):
    """Values of phrase pairs.

    Args:
        config: the size.
        n_target_words: target shortlist with </s> (which is in no pair) and <unk>.
    """

    def __init__(self, config: WordPairsConfig, n_target_words: int) -> None:
        super().__init__()
        self.config = config
        self.n_target_words = n_target_words
        self.pair_weights = nn.Parameter(torch.zeros(2**config.hash_bits))

    def weights_of(self, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> Tensor:
        """Weights w of pairs of word ids, whose shapes are brought together."""
        first, second = sources.astype(np.uint64), targets.astype(np.uint64)
        keys = first * np.uint64(self.n_target_words) + second
        places = (keys * MULTIPLIER) >> np.uint64(64 - self.config.hash_bits)
        found = torch.from_numpy(places.ravel().astype(np.int64)).to(self.pair_weights.device)
        return self.pair_weights.index_select(0, found).view(places.shape)

    def values(self, sources: Phrases, targets: Phrases) -> Tensor:
        """Values v of pairs, source by source and target by target, *Shape:* (n,)."""
        parts = [self._values(*part) for part in _parts(sources, targets)]
        return torch.cat([self.pair_weights.new_zeros(0), *parts])

    def _values(self, sources: Phrases, targets: Phrases) -> Tensor:
        inside = _inside(sources)[:, :, None] & _inside(targets)[:, None, :]
        weights = self.weights_of(sources[0][:, :, None], targets[0][:, None, :])
        return (weights * torch.from_numpy(inside).to(weights)).sum((1, 2))

    def table(self, sources: Phrases, targets: Phrases) -> Tensor:
        """Values v of each source with each target, *Shape:* (S, T)."""
        source_words, source_counts = _counted(sources)
        target_words, target_counts = _counted(targets)
        weights = self.weights_of(source_words[:, None], target_words)
        left, right = (
            torch.from_numpy(counts).to(weights) for counts in (source_counts, target_counts)
        )
        return left @ weights @ right.T


def _parts(sources: Phrases, targets: Phrases) -> Iterator[tuple[Phrases, Phrases]]:
    """Pairs that have not too many pairs of words."""
    n, size = len(sources[1]), sources[0].shape[1] * targets[0].shape[1]
    step = max(1, WORD_PAIRS_AT_ONCE // max(1, size))
    for start in range(0, n, step):
        part = slice(start, start + step)
        yield (sources[0][part], sources[1][part]), (targets[0][part], targets[1][part])


def _inside(phrases: Phrases) -> NDArray[np.bool_]:
    ids, lens = phrases
    return np.arange(ids.shape[1]) < lens[:, None]


def _counted(phrases: Phrases) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The words of all phrases, *Shape:* (U,), and how often each phrase has each, *Shape:* (S, U)."""
    inside = _inside(phrases)
    words, which = np.unique(phrases[0][inside], return_inverse=True)
    counts = np.zeros((len(inside), len(words)), np.float32)
    np.add.at(counts, (np.nonzero(inside)[0], which), 1)
    return words, counts
