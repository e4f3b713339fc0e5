"""A recurrent language model of the target (Mikolov et al. 2010): log p(target)."""

from __future__ import annotations

from rescorer.contract.architectures import AS_A_SENTENCE, Architecture
from rescorer.scorers.rnn_lm.inference import rnn_lm_scorer
from rescorer.scorers.rnn_lm.task import RnnLmTrainingConfig, empty_network, prepare
from rescorer.tries.generation import generator_with

ARCHITECTURE = Architecture(
    data="text",
    settings=RnnLmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=rnn_lm_scorer,
    generator=generator_with(rnn_lm_scorer),
    column_note=AS_A_SENTENCE,
)
