"""A linear phrase model: a pair of phrases has the sum of the weights of its pairs of words."""

from __future__ import annotations

from rescorer.contract.architectures import Architecture
from rescorer.scorers.word_pairs.inference import phrase_values, word_pairs_scorer
from rescorer.scorers.word_pairs.task import WordPairsTrainingConfig, empty_network, prepare

ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=WordPairsTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=word_pairs_scorer,
    column_note="a sum of weights of word pairs, no log-probability",
    phrase_values=phrase_values,
)
