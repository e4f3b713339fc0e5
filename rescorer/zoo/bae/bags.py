"""Phrases as bags: the words in each, whatever their order and number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Bags(NamedTuple):
    """The distinct words of some bags, bag by bag.

    Attributes:
        words: ids, *Shape:* (k,).
        bags: the bag of each, rising, *Shape:* (k,).
        n_bags: how many there are, empty ones included.
    """

    words: NDArray[np.int64]
    bags: NDArray[np.int64]
    n_bags: int

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Words, and where each bag begins among them, for `torch.nn.functional.embedding_bag`."""
        starts = np.searchsorted(self.bags, np.arange(self.n_bags))
        return torch.from_numpy(self.words).to(device), torch.from_numpy(starts).to(device)


def bags_of(ids: NDArray[np.int32], lens: NDArray[np.int64], merged: int = 1) -> Bags:
    """The words of phrases.

    Args:
        ids: of the words, *Shape:* (n, max_len or more).
        lens: words of each phrase, *Shape:* (n,).
        merged: number of consecutive phrases that make a bag.
    """
    inside = np.arange(ids.shape[1]) < lens[:, None]
    numbers = np.nonzero(inside)[0] // merged
    n_words = int(ids.max(initial=0)) + 1
    keys = np.unique(numbers * n_words + ids[inside])
    return Bags(keys % n_words, keys // n_words, -(-len(ids) // merged))
