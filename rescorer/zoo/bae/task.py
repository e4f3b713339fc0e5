"""Training of a bilingual autoencoder on the pairs of a phrase table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.config import AtLeast
from moses_bridge.base.errors import ConfigError
from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries.pair_losses import PairWords
from rescorer.tries.pair_task import Batching, PairTrainingConfig
from rescorer.tries.pooled_pair_task import PairModel, prepare_pairs
from rescorer.zoo.bae.bags import bags_of
from rescorer.zoo.bae.network import Bae, BaeConfig, correlation, reconstruction_loss


@dataclass(frozen=True)
class BaeTrainingConfig(PairTrainingConfig):
    """Settings of the training of a bilingual autoencoder.

    Losses are of reconstruction, in nats for each target word; they compare with no other model's. Unless
    `correlation_weight` is 0 and `merged_pairs` 1, one process computes a whole batch.

    Attributes:
        batching: "pairs" draws pairs at random, "sources" all targets of a source at once, "parts" four of
            them, "auto" what the recipe says.
        reading: "as-is" alone: a cosine has no direction.
        merged_pairs: number of pairs of a batch learned as one bag on each side. The paper joins 5 sentences,
            which saves time; bags of joined phrases are larger than those scored. Held-out pairs
            are never joined.
        correlation_weight: lambda, of the correlation of both codes in a batch, which each bag is rewarded
            with. The paper has 4 beside the losses of whole sentences, which have many more words.
        model: sizes.
    """

    batching: Batching | Literal["auto"] = "pairs"
    merged_pairs: Annotated[int, AtLeast(1)] = 1
    correlation_weight: Annotated[float, AtLeast(0)] = 0.3
    model: BaeConfig = field(default_factory=BaeConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reading != "as-is":
            raise ConfigError("reading: a cosine of two codes has no direction: leave it out")
        if self.loop.accumulation > 1 and self.needs_whole_batches:
            raise ConfigError(
                "loop.accumulation: correlation and merged pairs are those of a whole batch: leave it at 1,"
                " or set correlation_weight to 0 and merged_pairs to 1"
            )

    @property
    def needs_whole_batches(self) -> bool:
        """Whether the loss of a batch is more than the sum over its pairs."""
        return self.correlation_weight > 0 or self.merged_pairs > 1


def prepare(data: Data, config: BaeTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""

    def new_model(words: PairWords) -> PairModel:
        network = empty_network(config, words.shortlists)
        return PairModel(network, BaeLosses(network, config))

    return prepare_pairs(data, config, seed, new_model, config.needs_whole_batches)


@dataclass(frozen=True)
class BaeLosses:
    """See `PairLosses`.

    Attributes:
        network: is trained.
        config: how pairs are merged, and what correlation counts, in updates.
    """

    network: Bae
    config: BaeTrainingConfig

    def of_update(self, data: EncodedPairs, batch: SeededBatch) -> Tensor:
        """See `PairLosses`."""
        merged, weight = self.config.merged_pairs, self.config.correlation_weight
        return bae_loss(self.network, data, batch.rows, merged, weight)

    def of_held_out(self, data: EncodedPairs, rows: NDArray[np.int64]) -> Tensor:
        """See `PairLosses`; of reconstruction alone, pair by pair."""
        return bae_loss(self.network, data, rows, merged=1, correlation_weight=0.0)


def bae_loss(
    network: Bae,
    data: EncodedPairs,
    rows: NDArray[np.int64],
    merged: int,
    correlation_weight: float,
) -> Tensor:
    """Cross-entropies of both bags from each code and from both, natural log, less the correlation's share.

    Args:
        network: is trained.
        data: all pairs.
        rows: which of them, *Shape:* (n,).
        merged: pairs that make one bag on each side; it weighs as much as they do in the mean.
        correlation_weight: lambda.

    Returns:
        *Shape:* ().
    """
    groups = data.groups[rows]
    source = bags_of(data.sources[groups], data.source_lens[groups], merged)
    target = bags_of(data.targets[rows], data.target_lens[rows], merged)
    numbers = np.arange(len(rows)) // merged
    means = np.bincount(numbers, data.weights[rows]) / np.bincount(numbers)
    sums = (
        network.sums(network.source_vectors, source),
        network.sums(network.target_vectors, target),
    )
    weights = torch.from_numpy(means).to(sums[0])
    codes = [network.code(each) for each in (*sums, sums[0] + sums[1])]
    losses = [
        reconstruction_loss(output, code, bags, weights)
        for code in codes
        for output, bags in ((network.source_output, source), (network.target_output, target))
    ]
    total = torch.stack(losses).sum()
    if correlation_weight and len(weights) > 1:
        total = total - correlation_weight * len(weights) * correlation(*sums)
    return total


def empty_network(config: BaeTrainingConfig, shortlists: Shortlists) -> Bae:
    """A network with initial weights."""
    source, target = shortlists
    return Bae(config.model, len(source or ()), len(target))
