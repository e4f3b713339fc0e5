"""Training of weights of word pairs by contrast on the pairs of a phrase table."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.scorers.word_pairs.network import WordPairs, WordPairsConfig
from rescorer.training.loop import LoopConfig
from rescorer.tries.contrast import (
    ContrastBatch,
    ContrastLosses,
    ContrastTrainingConfig,
    ContrastValues,
)
from rescorer.tries.pair_losses import PairWords
from rescorer.tries.pooled_pair_task import PairModel, prepare_pairs


@dataclass(frozen=True)
class WordPairsTrainingConfig(ContrastTrainingConfig):
    """Settings of the training of weights of word pairs by contrast.

    Attributes:
        loop: recipe and limits; the default learning rate is 5e-2.
        model: size.
    """

    loop: LoopConfig = field(default_factory=lambda: LoopConfig(learning_rate=5e-2))
    model: WordPairsConfig = field(default_factory=WordPairsConfig)


def prepare(data: Data, config: WordPairsTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""

    def new_model(words: PairWords) -> PairModel:
        network = empty_network(config, words.shortlists)
        return PairModel(network, ContrastLosses(lambda batch: contrast(network, batch)))

    return prepare_pairs(data, config, seed, new_model, whole_batches=True)


def contrast(network: WordPairs, batch: ContrastBatch) -> ContrastValues:
    """The sums of the weights of a batch."""
    sources, targets = batch.sources, batch.targets
    table = network.table((sources.ids, sources.lens), (targets.ids, targets.lens))
    return ContrastValues(table, table[sources.which, targets.which])


def empty_network(config: WordPairsTrainingConfig, shortlists: Shortlists) -> WordPairs:
    """A network whose weights are 0."""
    return WordPairs(config.model, len(shortlists.target))
