"""CSTM, the feed-forward phrase model of Schwenk (2012): log p(target phrase | source phrase)."""

from __future__ import annotations

from rescorer.contract.architectures import Architecture
from rescorer.zoo.cstm.inference import cstm_embeddings, cstm_scorer, cstm_summaries
from rescorer.zoo.cstm.task import CstmTrainingConfig, empty_network, prepare

ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=CstmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=cstm_scorer,
    embeddings=cstm_embeddings,
    summaries=cstm_summaries,
)
