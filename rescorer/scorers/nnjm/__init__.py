"""NNJM, the joint model of Devlin et al. (2014): a word from its history and the source around its own word."""

from __future__ import annotations

from rescorer.contract.architectures import Architecture
from rescorer.scorers.nnjm.inference import nnjm_embeddings, nnjm_ngram_scorer, nnjm_scorer
from rescorer.scorers.nnjm.task import NnjmTrainingConfig, empty_network, prepare

ARCHITECTURE = Architecture(
    data="linked text",
    settings=NnjmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=nnjm_scorer,
    ngrams=nnjm_ngram_scorer,
    embeddings=nnjm_embeddings,
)
