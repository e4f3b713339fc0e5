"""The loss of words predicted by an output layer, over all its words or over a sample of them.

A sampled softmax is taken over the words of an update and a uniform sample. A word's logit is lowered by the
log of the probability that the word takes part: Bengio & Senécal (2008), importance sampling.

Notation: n rows, w width of a row, V words of the layer, k predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.layers.loss import Children, summed_loss
from rescorer.layers.products import on_device

# No word's probability of taking part is taken as lower: its logarithm is needed.
LOWEST_INCLUSION = 1e-9
NO_WORDS: NDArray[np.int64] = np.empty(0, np.int64)


class WordSampler:
    """Draws n_sampled words in addition to the `update_words` running words of each update.

    `shares` are those of each word in the training text, *Shape:* (V,).
    """

    def __init__(self, shares: NDArray[np.float64], update_words: int, n_sampled: int) -> None:
        self.n_words = len(shares)
        self.n_sampled = min(n_sampled, self.n_words)
        absent = (1 - shares) ** update_words * (1 - self.n_sampled / self.n_words)
        self.log_inclusion = np.log(np.maximum(1 - absent, LOWEST_INCLUSION))

    def draw(
        self, words: NDArray[np.int32] | NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Words of an update and a random sample of all: rising ids, and log p that each takes part, (n,)."""
        sample = rng.choice(self.n_words, self.n_sampled, replace=False)
        candidates = np.union1d(words, sample)
        return candidates, self.log_inclusion[candidates]


class Predicted(NamedTuple):
    """Words predicted from rows: rising rows, the words, and their weights in the loss, *Shape:* (k,) each."""

    rows: NDArray[np.int64]
    words: NDArray[np.int64]
    weights: NDArray[np.float64]


def output_loss(
    output: nn.Linear,
    rows: Tensor,
    predicted: Predicted,
    product_type: torch.dtype,
    alpha: float = 0.0,
) -> Tensor:
    """Weighted sum of -log p, natural log, over all words of the output layer, *Shape:* ().

    Rows are the layer's inputs, *Shape:* (n, w); alpha is the weight of log^2 Z, added for each word.
    """
    return _summed(rows, output.weight, output.bias, predicted, product_type, alpha)


@dataclass(frozen=True)
class UpdateLoss:
    """The loss of updates, over their words and a sample of the others or, without a sampler, over all.

    alpha is the weight of log^2 Z, added for each word.
    """

    output: nn.Linear
    sampler: WordSampler | None
    product_type: torch.dtype
    alpha: float

    def of(
        self,
        rows: Tensor,
        predicted: Predicted,
        rng: np.random.Generator,
        others: NDArray[np.integer] = NO_WORDS,
    ) -> Tensor:
        """Weighted sum of -log p, natural log, (), of words predicted from rows, (n, w); see `WordSampler`.

        The other parts of an update have `others`, (m,), which take part in every part.
        """
        if self.sampler is None:
            return output_loss(self.output, rows, predicted, self.product_type, self.alpha)
        candidates, log_inclusion = self.sampler.draw(
            np.concatenate([predicted.words, others]), rng
        )
        chosen = on_device(candidates, rows.device)
        correction = on_device(log_inclusion, rows.device).to(rows)
        weight, bias = self.output.weight[chosen], self.output.bias[chosen] - correction
        among = predicted._replace(words=np.searchsorted(candidates, predicted.words))
        return _summed(rows, weight, bias, among, self.product_type, self.alpha)


def _summed(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor,
    predicted: Predicted,
    product_type: torch.dtype,
    alpha: float,
) -> Tensor:
    children = Children(
        on_device(predicted.rows, rows.device),
        on_device(predicted.words, rows.device),
        on_device(predicted.weights, rows.device).to(rows),
    )
    return summed_loss(rows, weight, bias, children, product_type, alpha)
