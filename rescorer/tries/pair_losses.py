"""The losses of a recurrent network on phrase pairs: of updates, and of held-out pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.config import AtLeast
from rescorer.contract.vocabulary import Shortlists
from rescorer.layers.predicted import UpdateLoss
from rescorer.layers.sampled import WordSampler
from rescorer.layers.step_linear import shared_steps
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.training.word_counts import WordCounts
from rescorer.tries.loss import pairs_loss, predictions
from rescorer.tries.pair_task import PAIR_RECIPES, PairTrainingConfig


class PairWords(NamedTuple):
    """The words of the pairs learned from.

    Attributes:
        shortlists: of both sides.
        target_shares: the share of each target word in the running words of all targets, </s> included,
            *Shape:* (V,).
        words_per_pair: target words of a pair in the mean, </s> included.
    """

    shortlists: Shortlists
    target_shares: NDArray[np.float64]
    words_per_pair: float

    @classmethod
    def of(cls, shortlists: Shortlists, targets: WordCounts, n_pairs: int) -> PairWords:
        """From how often each word occurs in the targets of some pairs."""
        words = shortlists.target
        ids = words.encode_words(targets.words, len(targets.words))
        counts = np.bincount(ids, targets.counts, minlength=len(words))
        counts[words.end_id] += n_pairs
        return cls(shortlists, counts / counts.sum(), counts.sum() / n_pairs)


@dataclass(frozen=True)
class RecurrentTrainingConfig(PairTrainingConfig):
    """Settings of a training of a recurrent network, which predicts word after word, on phrase pairs.

    Attributes:
        n_sampled: words beside those of the batch over which the softmax of an update is taken, drawn
            anew each time; 0 takes the whole shortlist, as the recipe "paper" always does. Held-out losses
            are always exact.
        self_normalisation: weight alpha of log^2 Z in the loss (Devlin et al. 2014, section 2.3, use
            0.1), with which `rescorer score --unnormalized` can leave the denominator Z out; 0 for none.
    """

    n_sampled: Annotated[int, AtLeast(0)] = 1_000
    self_normalisation: Annotated[float, AtLeast(0)] = 0.0


class RecurrentLosses:
    """-log p(target | source) over distinct prefixes, that of an update over some words alone; `PairLosses`.

    Args:
        network: is trained; a `Recurrent`.
        config: settings.
        words: of the pairs.
    """

    def __init__(self, network: Any, config: RecurrentTrainingConfig, words: PairWords) -> None:
        self._network = network
        self._product_type = config.loop.product_dtype
        sampled = config.n_sampled and PAIR_RECIPES[config.loop.recipe].samples
        self._update_loss = UpdateLoss(
            network.output,
            _sampler(config, words) if sampled else None,
            self._product_type,
            config.self_normalisation,
        )

    def of_update(self, data: EncodedPairs, batch: SeededBatch) -> Tensor:
        """See `PairLosses`; see `rescorer.layers.sampled` for the words that take part."""
        with shared_steps(self._network, self._product_type):
            factors, predicted = predictions(self._network, data, batch.rows)
        others = data.targets[batch.others].ravel()
        return self._update_loss.of(factors, predicted, np.random.default_rng(batch.seed), others)

    def of_held_out(self, data: EncodedPairs, rows: NDArray[np.int64]) -> Tensor:
        """See `PairLosses`; exact."""
        return pairs_loss(self._network, data, rows, torch.float32)


def _sampler(config: RecurrentTrainingConfig, words: PairWords) -> WordSampler:
    words_per_update = round(config.pairs_per_update * words.words_per_pair)
    return WordSampler(words.target_shares, words_per_update, config.n_sampled)
