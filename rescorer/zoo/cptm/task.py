"""The contrastive start of a continuous-space phrase model on the pairs of a phrase table."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescorer.contract.data import Data
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists
from rescorer.tries.contrast import (
    ContrastBatch,
    ContrastLosses,
    ContrastTrainingConfig,
    ContrastValues,
)
from rescorer.tries.pair_losses import PairWords
from rescorer.tries.pooled_pair_task import PairModel, prepare_pairs
from rescorer.zoo.cptm.joint_vocabulary import JointVocabulary
from rescorer.zoo.cptm.network import Cptm, CptmConfig, similarities


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
        joint = JointVocabulary.of(words.shortlists)
        return PairModel(network, ContrastLosses(lambda batch: contrast(network, joint, batch)))

    return prepare_pairs(data, config, seed, new_model, whole_batches=True)


def contrast(network: Cptm, words: JointVocabulary, batch: ContrastBatch) -> ContrastValues:
    """The products of the codes of a batch."""
    sources, targets = batch.sources, batch.targets
    source_codes = network.codes(sources.ids, sources.lens)
    target_codes = network.codes(words.target_ids[targets.ids], targets.lens)
    pairs = similarities(source_codes[sources.which], target_codes[targets.which])
    return ContrastValues(source_codes @ target_codes.T, pairs)


def empty_network(config: CptmTrainingConfig, shortlists: Shortlists) -> Cptm:
    """A network with initial weights."""
    return Cptm(config.model, len(JointVocabulary.of(shortlists)))
