"""The RNN Encoder-Decoder of Cho et al. (2014): log p(target phrase | source phrase)."""

from __future__ import annotations

from rescorer.contract.architectures import Architecture
from rescorer.scorers.encdec.inference import (
    encdec_embeddings,
    encdec_scorer,
    encdec_summaries,
)
from rescorer.scorers.encdec.task import EncDecTrainingConfig, empty_network, prepare
from rescorer.tries.generation import generator_with
from rescorer.tries.phrase_values import phrase_values

ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=EncDecTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=encdec_scorer,
    generator=generator_with(encdec_scorer),
    embeddings=encdec_embeddings,
    summaries=encdec_summaries,
    phrase_values=phrase_values,
)
