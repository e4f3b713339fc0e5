"""The contrastive start of a continuous-space phrase model on the pairs of a phrase table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.errors import ConfigError
from rescorer.contract import Data, Prepared, Shortlists
from rescorer.scorers.cptm.contrast import contrastive_loss
from rescorer.scorers.cptm.joint_vocabulary import JointVocabulary
from rescorer.scorers.cptm.network import Cptm, CptmConfig
from rescorer.training.encoded_pairs import EncodedPairs
from rescorer.tries.pair_task import PairTrainingConfig
from rescorer.tries.pooled_pair_task import prepare_pairs


@dataclass(frozen=True)
class CptmTrainingConfig(PairTrainingConfig):
    """Settings of the contrastive start of a continuous-space phrase model.

    Losses are those of telling a pair's target from other targets, in nats for each target word; they compare
    with no other model's, and depend on the pairs of a batch. One process computes a whole batch.

    Attributes:
        batching: "pairs" draws pairs at random, "sources" all targets of a source at once, "auto" what
            the recipe says.
        reverse_sides: false alone: a similarity has no direction.
        self_normalisation: 0 alone: there is no denominator.
        model: sizes.
    """

    batching: Literal["auto", "sources", "pairs"] = "pairs"
    model: CptmConfig = field(default_factory=CptmConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reverse_sides:
            raise ConfigError("reverse_sides: a similarity has no direction: leave it out")
        if self.self_normalisation:
            raise ConfigError("self_normalisation: a similarity has no denominator: leave it at 0")
        if self.loop.accumulation > 1:
            raise ConfigError(
                "loop.accumulation: a target is told from those of a whole batch: leave it at 1"
            )


def prepare(data: Data, config: CptmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""
    target_ids: list[NDArray[np.int64]] = []

    def new_network(shortlists: Shortlists) -> Cptm:
        target_ids.append(JointVocabulary.of(shortlists).target_ids)
        return empty_network(config, shortlists)

    def loss(
        network: Cptm,
        pairs: EncodedPairs,
        rows: NDArray[np.int64],
        product_type: torch.dtype,
        alpha: float,
    ) -> Tensor:
        return contrastive_loss(network, pairs, rows, target_ids[0])

    return prepare_pairs(data, config, seed, new_network, loss, whole_batches=True)


def empty_network(config: CptmTrainingConfig, shortlists: Shortlists) -> Cptm:
    """A network with initial weights."""
    return Cptm(config.model, len(JointVocabulary.of(shortlists)))
