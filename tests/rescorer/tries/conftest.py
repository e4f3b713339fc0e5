"""Pairs of a few made words, a small network and its plain likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig, EncoderDecoder
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries.phrase_pairs import PairWords, PhrasePairs, pair_losses
from rescorer.tries.task import Losses, TrieTask
from tests.rescorer.plain_networks import log_probs

N_SOURCE, N_TARGET = 11, 13
MODEL = EncDecConfig(hidden_width=7, embedding_width=5, maxout_width=3)


def make_data(n_sources: int = 17, n_pairs: int = 101) -> EncodedPairs:
    rng = np.random.default_rng(8)

    def phrases(n: int, n_words: int, max_len: int) -> tuple[Any, Any]:
        lens = rng.integers(0, max_len + 1, n)
        ids = rng.integers(1, n_words, (n, max_len + 1)).astype(np.int32)
        ids[np.arange(max_len + 1) >= lens[:, None]] = 0
        return ids, lens

    groups = np.sort(rng.integers(0, n_sources, n_pairs))
    weights = rng.uniform(0.5, 3.0, n_pairs)
    sources, targets = phrases(n_sources, N_SOURCE, 4), phrases(n_pairs, 5, 3)
    return EncodedPairs(*sources, *targets, groups, weights)


def make_network() -> EncoderDecoder:
    torch.manual_seed(3)
    network = EncoderDecoder(MODEL, N_SOURCE, N_TARGET).double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network


def pair_by_pair(network: EncoderDecoder, data: EncodedPairs, rows: Any) -> Tensor:
    groups = data.groups[rows]
    found = log_probs(
        network,
        torch.from_numpy(data.sources[groups]).long(),
        torch.from_numpy(data.source_lens[groups]),
        torch.from_numpy(data.targets[rows]).long(),
        torch.from_numpy(data.target_lens[rows]),
    )
    return -(torch.from_numpy(data.weights[rows]) * found).sum()


def losses_of(network: EncoderDecoder, config: EncDecTrainingConfig) -> Losses:
    """Those of a network, as if all its words were as frequent."""
    n_words = network.output.out_features
    shares = np.full(n_words, 1 / n_words)
    shortlists = Shortlists(None, Vocabulary([b"%d" % number for number in range(n_words - 2)]))
    return pair_losses(network, config, PairWords(shortlists, shares, 3.0))


class Pools:
    """Pools in memory."""

    def __init__(self, *pools: EncodedPairs) -> None:
        self.pools = pools
        self.sizes = [len(pool) for pool in pools]
        self.loaded: list[int] = []

    def load(self, pool: int) -> EncodedPairs:
        self.loaded.append(pool)
        return self.pools[pool]


def task_of(
    network: EncoderDecoder, config: EncDecTrainingConfig, *pools: EncodedPairs
) -> TrieTask:
    """The task of pairs in memory."""
    return TrieTask(PhrasePairs(Pools(*pools), config, 4), losses_of(network, config))
