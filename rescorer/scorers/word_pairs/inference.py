"""A model of word pairs made ready for scoring, and its values with gradients."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from rescorer.contract.architectures import PhraseValues
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.word_pairs.network import Phrases, WordPairs


class WordPairsScorer:
    """The sum of the weights of the word pairs; it is no log-probability.

    Several threads may use one scorer. It has no products, so it is float32 in any precision.

    Args:
        network: on the device where it shall compute.
        shortlists: its words.
    """

    needs_links = False

    def __init__(self, network: WordPairs, shortlists: Shortlists) -> None:
        self.network = network
        self._shortlists = shortlists

    @property
    def shortlist(self) -> Vocabulary:
        """The target words that the network knows."""
        return self._shortlists.target

    @torch.inference_mode()
    def values(self, batch: Batch) -> NDArray[np.float64]:
        """The sum of each pair; see `contract.Scorer`."""
        found = self.network.values(*_encoded(self._shortlists, batch))
        return np.asarray(found.double().cpu().numpy())


def word_pairs_scorer(model: TrainedModel[WordPairs], compute: Compute) -> WordPairsScorer:
    """What the words of source and target weigh together."""
    return WordPairsScorer(model.network.to(compute.place), model.shortlists)


def phrase_values(model: TrainedModel[WordPairs], pairs: Batch) -> PhraseValues:
    """See `contract.Architecture`."""
    (sources, source_lens), (targets, target_lens) = _encoded(model.shortlists, pairs)
    return lambda rows: model.network.values(
        (sources[rows], source_lens[rows]), (targets[rows], target_lens[rows])
    )


def _encoded(shortlists: Shortlists, pairs: Batch) -> tuple[Phrases, Phrases]:
    source, target = shortlists.source_words, shortlists.target
    return source.encode_phrases(pairs.sources), target.encode_phrases(pairs.targets)
