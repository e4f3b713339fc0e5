"""A continuous-space phrase model made ready for scoring: each distinct phrase has one code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from rescorer.contract.architectures import Summaries
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Vocabulary
from rescorer.zoo.cptm.joint_vocabulary import JointVocabulary
from rescorer.zoo.cptm.network import Cptm
from rescorer.zoo.cptm.phrase_values import values_of


class CptmScorer:
    """The product of the codes of source and target; it is no log-probability.

    Several threads may use one scorer. It has few products, so they are float32 in any precision.

    Args:
        network: on the device it computes on.
        words: that it knows.
    """

    needs_links = False

    def __init__(self, network: Cptm, words: JointVocabulary) -> None:
        self.network = network
        self.words = words

    @property
    def shortlist(self) -> Vocabulary:
        """The target words the network knows."""
        return self.words.target

    @torch.inference_mode()
    def values(self, batch: Batch) -> NDArray[np.float64]:
        """The product of each pair; see `contract.Scorer`."""
        if not len(batch):
            return np.zeros(0)
        found = values_of(self.network, self.words, batch)(np.arange(len(batch)))
        return np.asarray(found.double().cpu().numpy())


def cptm_scorer(model: TrainedModel[Cptm], compute: Compute) -> CptmScorer:
    """How alike the codes of source and target are."""
    return CptmScorer(model.network.to(compute.place), JointVocabulary.of(model.shortlists))


def cptm_embeddings(model: TrainedModel[Cptm]) -> dict[Side, NDArray[np.float32]]:
    """The rows of W_1 of each side's words; what both languages spell alike has one row."""
    vectors = model.network.word_vectors.weight.detach().cpu().numpy()
    words = JointVocabulary.of(model.shortlists)
    return {"source": vectors[: len(words.source)], "target": vectors[words.target_ids]}


def cptm_summaries(model: TrainedModel[Cptm], compute: Compute) -> Summaries:
    """The codes of source phrases."""
    network, words = model.network.to(compute.place), JointVocabulary.of(model.shortlists)

    @torch.inference_mode()
    def summaries(phrases: Sequence[bytes]) -> NDArray[np.float32]:
        return np.asarray(network.codes(*words.encode("source", phrases)).float().cpu().numpy())

    return summaries
