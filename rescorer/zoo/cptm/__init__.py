"""The continuous-space phrase model of Gao et al. (2014): the product of the codes of two bags of words."""

from __future__ import annotations

from rescorer.contract.architectures import Architecture
from rescorer.zoo.cptm.inference import cptm_embeddings, cptm_scorer, cptm_summaries
from rescorer.zoo.cptm.phrase_values import phrase_values
from rescorer.zoo.cptm.task import CptmTrainingConfig, empty_network, prepare

ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=CptmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=cptm_scorer,
    column_note="a similarity of two codes, no log-probability",
    embeddings=cptm_embeddings,
    summaries=cptm_summaries,
    phrase_values=phrase_values,
)
