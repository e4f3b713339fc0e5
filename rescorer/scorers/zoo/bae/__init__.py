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
from rescorer.contract.vocabulary import Vocabulary
from rescorer.scorers.zoo.bae.network import Bae, BaeTrainingConfig, bags_of, empty_network, prepare
from rescorer.tries.scoring import ValueScorer


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


def bae_scorer(model: TrainedModel[Bae], compute: Compute) -> ValueScorer:
    """The cosine of the codes of source and target, -1 to 1; float32 in any precision."""
    network = model.network.to(compute.place)
    source, target = model.shortlists.source_words, model.shortlists.target

    def values_of(batch: Batch) -> Tensor:
        return cosine_similarity(
            _codes_of_all(network, network.source_vectors, source, batch.sources),
            _codes_of_all(network, network.target_vectors, target, batch.targets),
        )

    return ValueScorer(values_of, target)


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
