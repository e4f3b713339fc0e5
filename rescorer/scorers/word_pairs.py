"""A linear phrase model, the baseline of networks over bags of words: weights of source-target word pairs.

    v(s, t) = sum_i sum_j w(s_i, t_j)

The word pair features are those of Watanabe et al. (2007), over all words of a phrase pair instead of
linked ones. A pair's weight is found by a hash (Weinberger et al. 2009), shared by colliding pairs.
Weights are trained contrastively on the pairs of a phrase table.

Notation: n phrase pairs; S distinct sources and T distinct targets; U and W their distinct words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast, AtMost, Limited
from rescorer.contract.architectures import Architecture, PhraseValues
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.training.loop_config import LoopConfig
from rescorer.tries.contrast import (
    ContrastBatch,
    ContrastTrainingConfig,
    ContrastValues,
    contrast_losses,
)
from rescorer.tries.phrase_pairs import prepare_pairs
from rescorer.tries.scoring import ValueScorer
from rescorer.tries.task import Losses

# Word ids of phrases, *Shape:* (n, max_len or more), and words of each, *Shape:* (n,).
Phrases = tuple[NDArray[np.int32], NDArray[np.int64]]
# 2^64 divided by the golden ratio: products with it are spread evenly (Knuth, volume 3, section 6.4).
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
WORD_PAIRS_AT_ONCE = 2**21


@dataclass(frozen=True)
class WordPairsConfig(Limited):
    """Size of a model of word pairs.

    Attributes:
        hash_bits: binary logarithm of the number of weights.
    """

    hash_bits: Annotated[int, AtLeast(1), AtMost(30)] = 20


class WordPairs(nn.Module):
    """Values of phrase pairs; n_target_words counts </s> (which is in no pair) and <unk>."""

    def __init__(self, config: WordPairsConfig, n_target_words: int) -> None:
        super().__init__()
        self.config = config
        self.n_target_words = n_target_words
        self.pair_weights = nn.Parameter(torch.zeros(2**config.hash_bits))

    def weights_of(self, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> Tensor:
        """Weights w of pairs of word ids with shapes that broadcast."""
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
    """Parts whose word pairs fit in memory."""
    n, size = len(sources[1]), sources[0].shape[1] * targets[0].shape[1]
    step = max(1, WORD_PAIRS_AT_ONCE // max(1, size))
    for start in range(0, n, step):
        part = slice(start, start + step)
        yield (sources[0][part], sources[1][part]), (targets[0][part], targets[1][part])


def _inside(phrases: Phrases) -> NDArray[np.bool_]:
    ids, lens = phrases
    return np.arange(ids.shape[1]) < lens[:, None]


def _counted(phrases: Phrases) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The words of all phrases, *Shape:* (U,), and the count of each in each phrase, *Shape:* (S, U)."""
    inside = _inside(phrases)
    words, which = np.unique(phrases[0][inside], return_inverse=True)
    counts = np.zeros((len(inside), len(words)), np.float32)
    np.add.at(counts, (np.nonzero(inside)[0], which), 1)
    return words, counts


@dataclass(frozen=True)
class WordPairsTrainingConfig(ContrastTrainingConfig):
    """Settings of the training of weights of word pairs by contrast.

    Attributes:
        loop: recipe and limits; by default one pass with a learning rate of 5e-2.
        model: size.
    """

    loop: LoopConfig = field(default_factory=lambda: LoopConfig(learning_rate=5e-2, n_epochs=1))
    model: WordPairsConfig = field(default_factory=WordPairsConfig)


def prepare(data: Data, config: WordPairsTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""

    def losses(network: WordPairs, *_: object) -> Losses:
        return contrast_losses(lambda batch: contrast(network, batch))

    return prepare_pairs(data, config, seed, empty_network, losses, whole_batches=True)


def contrast(network: WordPairs, batch: ContrastBatch) -> ContrastValues:
    """Sums of the weights of a batch."""
    sources, targets = batch.sources, batch.targets
    table = network.table((sources.ids, sources.lens), (targets.ids, targets.lens))
    return table, table[sources.which, targets.which]


def empty_network(config: WordPairsTrainingConfig, shortlists: Shortlists) -> WordPairs:
    """A network with zero weights."""
    return WordPairs(config.model, len(shortlists.target))


def word_pairs_scorer(model: TrainedModel[WordPairs], compute: Compute) -> ValueScorer:
    """The total weight of the word pairs of source and target; float32 in any precision."""
    model.network.to(compute.place)
    return ValueScorer(phrase_values(model, compute.dtype), model.shortlists.target)


def phrase_values(model: TrainedModel[WordPairs], product_type: torch.dtype) -> PhraseValues:
    """See `contract.Architecture`; there are no products."""
    source, target = model.shortlists.source_words, model.shortlists.target
    return lambda pairs: model.network.values(
        source.encode_phrases(pairs.sources), target.encode_phrases(pairs.targets)
    )


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=WordPairsTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=word_pairs_scorer,
    column_note="a sum of weights of word pairs, no log-probability",
    phrase_values=phrase_values,
)
