"""RNNsearch and RNNenc (Bahdanau et al. 2015): log p(target sentence | source sentence)."""

from __future__ import annotations

from rescorer.contract.architectures import Architecture
from rescorer.scorers.rnnsearch.inference import rnnsearch_scorer
from rescorer.scorers.rnnsearch.task import RnnSearchTrainingConfig, empty_network, prepare
from rescorer.tries.generation import generator_with

ARCHITECTURE = Architecture(
    data="parallel text",
    settings=RnnSearchTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=rnnsearch_scorer,
    generator=generator_with(rnnsearch_scorer),
)
