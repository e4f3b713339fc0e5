"""The contrastive start of a continuous-space phrase model on the pairs of a phrase table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.errors import ConfigError
from rescorer.contract import Data, Prepared, Shortlists
from rescorer.scorers.cptm.contrast import contrastive_loss
from rescorer.scorers.cptm.joint_vocabulary import JointVocabulary
from rescorer.scorers.cptm.network import Cptm, CptmConfig
from rescorer.training.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries.pair_losses import PairWords
from rescorer.tries.pair_task import Batching, PairTrainingConfig
from rescorer.tries.pooled_pair_task import PairModel, prepare_pairs


@dataclass(frozen=True)
class CptmTrainingConfig(PairTrainingConfig):
    """Settings of the contrastive start of a continuous-space phrase model.

    Losses are those of telling a pair's target from other targets, in nats for each target word; they compare
    with no other model's, and depend on the pairs of a batch. One process computes a whole batch.

    Attributes:
        batching: "pairs" draws pairs at random, "sources" all targets of a source at once, "parts" four of
            them, "auto" what the recipe says.
        reverse_sides: false alone: a similarity has no direction.
        model: sizes.
    """

    batching: Batching | Literal["auto"] = "pairs"
    model: CptmConfig = field(default_factory=CptmConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reverse_sides:
            raise ConfigError("reverse_sides: a similarity has no direction: leave it out")
        if self.loop.accumulation > 1:
            raise ConfigError(
                "loop.accumulation: a target is told from those of a whole batch: leave it at 1"
            )


def prepare(data: Data, config: CptmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""

    def new_model(words: PairWords) -> PairModel:
        network = empty_network(config, words.shortlists)
        return PairModel(network, CptmLosses(network, JointVocabulary.of(words.shortlists)))

    return prepare_pairs(data, config, seed, new_model, whole_batches=True)


@dataclass(frozen=True)
class CptmLosses:
    """See `PairLosses`; both are the same.

    Attributes:
        network: is trained.
        words: of both sides.
    """

    network: Cptm
    words: JointVocabulary

    def of_update(self, data: EncodedPairs, batch: SeededBatch) -> Tensor:
        """See `PairLosses`."""
        return self.of_held_out(data, batch.rows)

    def of_held_out(self, data: EncodedPairs, rows: NDArray[np.int64]) -> Tensor:
        """See `PairLosses`."""
        return contrastive_loss(self.network, data, rows, self.words.target_ids)


def empty_network(config: CptmTrainingConfig, shortlists: Shortlists) -> Cptm:
    """A network with initial weights."""
    return Cptm(config.model, len(JointVocabulary.of(shortlists)))
