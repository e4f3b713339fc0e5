"""Bilingual autoencoder of Chandar et al. (NIPS 2014, arXiv 1402.1454) over bags of words.

A phrase is the set of its words, v(x) with a 1 for each. Both languages share a code:

    phi(x) = tanh(c + W_x v(x))    phi(y) = tanh(c + W_y v(y))    phi(x, y) = tanh(c + W_x v(x) + W_y v(y))

from which one sigmoid for each word says whether it is in the bag. A pair's loss is the cross-entropy of both
bags from each of the three codes. How near the codes of two phrases are is a cosine, -1 to 1, which neither
knows the order of the words nor is a log-probability.

Notation: n bags, D code_width, V words of a side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, softplus

from moses_bridge.base.config import AtLeast, check_limits
from rescorer.layers.initial_weights import WORD_DEVIATION
from rescorer.layers.output_layer import start_normalised
from rescorer.zoo.bae.bags import Bags

# Bags whose V sigmoids are in memory at a time where nothing is learned.
BAGS_AT_ONCE = 512


@dataclass(frozen=True)
class BaeConfig:
    """Sizes of a bilingual autoencoder.

    Attributes:
        code_width: D, of the code that both languages share (40 in the paper).
    """

    code_width: Annotated[int, AtLeast(1)] = 40

    def __post_init__(self) -> None:
        check_limits(self)


class Bae(nn.Module):
    """Codes of bags, and bags from codes.

    Args:
        config: the sizes.
        n_source_words: V of the source, with </s> (which is in no bag) and <unk>.
        n_target_words: V of the target.
    """

    def __init__(self, config: BaeConfig, n_source_words: int, n_target_words: int) -> None:
        super().__init__()
        self.config = config
        self.source_vectors = nn.Embedding(n_source_words, config.code_width)
        self.target_vectors = nn.Embedding(n_target_words, config.code_width)
        self.code_bias = nn.Parameter(torch.zeros(config.code_width))
        self.source_output = nn.Linear(config.code_width, n_source_words)
        self.target_output = nn.Linear(config.code_width, n_target_words)
        self.initialise()

    def initialise(self) -> None:
        """Draw W from N(0, 0.1^2), the outputs' weights scaled by their fan-in; a word has p = 1 / (V + 1)."""
        nn.init.zeros_(self.code_bias)
        for vectors in (self.source_vectors, self.target_vectors):
            nn.init.normal_(vectors.weight, std=WORD_DEVIATION)
        for output in (self.source_output, self.target_output):
            nn.init.xavier_uniform_(output.weight)
            start_normalised(output)

    def sums(self, vectors: nn.Embedding, bags: Bags) -> Tensor:
        """W v of bags, *Shape:* (n, D)."""
        words, starts = bags.on(vectors.weight.device)
        return embedding_bag(words, vectors.weight, starts, mode="sum")

    def code(self, sums: Tensor) -> Tensor:
        """phi, *Shape:* (n, D) -> (n, D)."""
        return torch.tanh(self.code_bias + sums)


def reconstruction_loss(output: nn.Linear, codes: Tensor, bags: Bags, weights: Tensor) -> Tensor:
    """Weighted sum of the bags' cross-entropies, natural log: -sum_w log p(w is in the bag, or is not).

    Args:
        output: of the bags' side.
        codes: *Shape:* (n, D).
        bags: n of them.
        weights: *Shape:* (n,).

    Returns:
        *Shape:* ().
    """
    words, numbers = (torch.from_numpy(array).to(codes.device) for array in (bags.words, bags.bags))
    inside = (codes[numbers] * output.weight[words]).sum(1) + output.bias[words]
    # log(1 + e^z) for every word, less z for those that are there.
    totals = [softplus(output(part)).sum(1) for part in torch.split(codes, BAGS_AT_ONCE)]
    return torch.cat(totals) @ weights - inside @ weights[numbers]


def correlation(one: Tensor, other: Tensor) -> Tensor:
    """Sum over dimensions of the correlation of two codes' pre-activations over the bags of a batch.

    Args:
        one: *Shape:* (n, D).
        other: *Shape:* (n, D).

    Returns:
        *Shape:* (), at most D.
    """
    one, other = one - one.mean(0), other - other.mean(0)
    scales = (one.square().sum(0) * other.square().sum(0) + 1e-12).sqrt()
    return ((one * other).sum(0) / scales).sum()
