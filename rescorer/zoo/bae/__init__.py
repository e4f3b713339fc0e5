"""The bilingual autoencoder of Chandar et al. (2014) over bags of words: how near two phrases' codes are."""

from __future__ import annotations

from rescorer.contract.architectures import Architecture
from rescorer.zoo.bae.inference import bae_embeddings, bae_scorer, bae_summaries
from rescorer.zoo.bae.task import BaeTrainingConfig, empty_network, prepare

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
