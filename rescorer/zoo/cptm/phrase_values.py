"""Values of phrase pairs through which gradients flow, for a training on whole translations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.contract.architectures import PhraseValues
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Side
from rescorer.contract.distinct import distinct_phrases
from rescorer.contract.trained_model import TrainedModel
from rescorer.zoo.cptm.joint_vocabulary import Encoded, JointVocabulary
from rescorer.zoo.cptm.network import Cptm, similarities

# From numbers of some pairs, *Shape:* (n,), to their values, *Shape:* (n,), with gradients.
SomeValues = Callable[[NDArray[np.int64]], Tensor]


@dataclass(frozen=True)
class PairPhrases:
    """The phrases of one side of some pairs.

    Attributes:
        phrases: different ones.
        which: the phrase of each pair, *Shape:* (n_pairs,).
    """

    phrases: Encoded
    which: NDArray[np.int64]

    @classmethod
    def of(cls, words: JointVocabulary, side: Side, phrases: Sequence[bytes]) -> PairPhrases:
        """Equal phrases are encoded once."""
        different, which = distinct_phrases(phrases)
        return cls(words.encode(side, different), which)

    def codes(self, network: Cptm, pairs: NDArray[np.int64]) -> Tensor:
        """The codes of some pairs, equal phrases computed once, *Shape:* (n, D)."""
        used, which = np.unique(self.which[pairs], return_inverse=True)
        ids, lens = self.phrases
        return network.codes(ids[used], lens[used])[which]


def values_of(network: Cptm, words: JointVocabulary, pairs: Batch) -> SomeValues:
    """What gives the values of some of the pairs under the network's weights of that moment."""
    source = PairPhrases.of(words, "source", pairs.sources)
    target = PairPhrases.of(words, "target", pairs.targets)
    return lambda rows: similarities(source.codes(network, rows), target.codes(network, rows))


def phrase_values(model: TrainedModel[Cptm], product_type: torch.dtype) -> PhraseValues:
    """See `contract.Architecture`; its products are small, and float32."""
    words = JointVocabulary.of(model.shortlists)
    return lambda pairs: values_of(model.network, words, pairs)(np.arange(len(pairs)))
