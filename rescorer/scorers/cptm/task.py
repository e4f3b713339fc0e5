"""The contrastive start of a continuous-space phrase model on the pairs of a phrase table."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rescorer.contract import Data, Prepared, Shortlists
from rescorer.scorers.cptm.joint_vocabulary import JointVocabulary
from rescorer.scorers.cptm.network import Cptm, CptmConfig, similarities
from rescorer.training.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries.contrast import ContrastBatch, ContrastTrainingConfig, contrastive_loss
from rescorer.tries.pair_losses import PairWords
from rescorer.tries.pooled_pair_task import PairModel, prepare_pairs


@dataclass(frozen=True)
class CptmTrainingConfig(ContrastTrainingConfig):
    """Settings of the contrastive start of a continuous-space phrase model.

    Attributes:
        model: sizes.
    """

    model: CptmConfig = field(default_factory=CptmConfig)


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
        batch = ContrastBatch.of(data, rows)
        sources, targets = batch.sources, batch.targets
        source_codes = self.network.codes(sources.ids, sources.lens)
        target_codes = self.network.codes(self.words.target_ids[targets.ids], targets.lens)
        values = similarities(source_codes[sources.which], target_codes[targets.which])
        return contrastive_loss(batch, source_codes @ target_codes.T, values)


def empty_network(config: CptmTrainingConfig, shortlists: Shortlists) -> Cptm:
    """A network with initial weights."""
    return Cptm(config.model, len(JointVocabulary.of(shortlists)))
