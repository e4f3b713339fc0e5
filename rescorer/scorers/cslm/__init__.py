"""CSLM, a feed-forward n-gram language model of the target (Schwenk 2007): log p(target)."""

from __future__ import annotations

from rescorer.contract.architectures import AS_A_SENTENCE, Architecture
from rescorer.scorers.cslm.inference import cslm_embeddings, cslm_ngram_scorer, cslm_scorer
from rescorer.scorers.cslm.task import CslmTrainingConfig, empty_network, prepare

ARCHITECTURE = Architecture(
    data="text",
    settings=CslmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=cslm_scorer,
    column_note=AS_A_SENTENCE,
    ngrams=cslm_ngram_scorer,
    embeddings=cslm_embeddings,
)
