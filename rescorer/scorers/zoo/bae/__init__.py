"""The bilingual autoencoder of Chandar et al. (2014) for scoring: similarity of two phrases' codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from rescorer.contract.architectures import Architecture, Summaries
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.zoo.bae.network import Bae, BaeTrainingConfig, bags_of, empty_network, prepare


class BaeScorer:
    """The cosine of the codes of source and target, -1 to 1; not a log-probability.

    Several threads may use one scorer. It has few products: they are float32 in any precision.
    """

    needs_links = False

    def __init__(self, network: Bae, shortlists: Shortlists) -> None:
        self.network = network
        self.shortlists = shortlists

    @property
    def shortlist(self) -> Vocabulary:
        """The target words known to the network."""
        return self.shortlists.target

    @torch.inference_mode()
    def values(self, batch: Batch) -> NDArray[np.float64]:
        """The cosine of each pair; see `contract.Scorer`."""
        if not len(batch):
            return np.zeros(0)
        source, target = self.network.source_vectors, self.network.target_vectors
        codes = (
            _codes_of_all(self.network, source, self.shortlists.source_words, batch.sources),
            _codes_of_all(self.network, target, self.shortlists.target, batch.targets),
        )
        return np.asarray(cosine_similarity(*codes).double().cpu().numpy())


def _codes_of_all(
    network: Bae, vectors: nn.Embedding, words: Vocabulary, phrases: Sequence[bytes]
) -> Tensor:
    """The code of each phrase, equal ones computed once, *Shape:* (n, D)."""
    different, which = distinct(phrases)
    codes = _codes(network, vectors, words, different)
    return codes[torch.from_numpy(which).to(codes.device)]


def _codes(
    network: Bae, vectors: nn.Embedding, words: Vocabulary, phrases: Sequence[bytes]
) -> Tensor:
    return network.code(network.sums(vectors, bags_of(*words.encode_phrases(phrases))))


def bae_scorer(model: TrainedModel[Bae], compute: Compute) -> BaeScorer:
    """Similarity of the codes of source and target."""
    return BaeScorer(model.network.to(compute.place), model.shortlists)


def bae_embeddings(model: TrainedModel[Bae]) -> dict[Side, NDArray[np.float32]]:
    """The columns of W_x and W_y, which share one space."""
    network = model.network
    return {
        "source": network.source_vectors.weight.detach().cpu().numpy(),
        "target": network.target_vectors.weight.detach().cpu().numpy(),
    }


def bae_summaries(model: TrainedModel[Bae], compute: Compute) -> Summaries:
    """The codes of source phrases."""
    network, words = model.network.to(compute.place), model.shortlists.source_words

    @torch.inference_mode()
    def summaries(phrases: Sequence[bytes]) -> NDArray[np.float32]:
        codes = _codes(network, network.source_vectors, words, phrases)
        return np.asarray(codes.float().cpu().numpy())

    return summaries


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=BaeTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=bae_scorer,
    column_note="the cosine of two codes, no log-probability",
    embeddings=bae_embeddings,
    summaries=bae_summaries,
)
