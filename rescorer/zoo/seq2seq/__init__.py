"""The deep LSTM encoder-decoder of Sutskever et al. (2014): log p(target sentence | source sentence)."""

from __future__ import annotations

from rescorer.contract.architectures import Architecture
from rescorer.tries.generation import generator_with
from rescorer.zoo.seq2seq.inference import seq2seq_scorer
from rescorer.zoo.seq2seq.task import Seq2SeqTrainingConfig, empty_network, prepare

ARCHITECTURE = Architecture(
    data="parallel text",
    settings=Seq2SeqTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=seq2seq_scorer,
    generator=generator_with(seq2seq_scorer),
)
