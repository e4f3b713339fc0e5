"""Log-probabilities of words from the rows before the output layer: log Z, and logits of given words.

Notation: n rows, w width of a row, V words.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn

from rescorer.layers.log_sum_exp import LogSumExp
from rescorer.layers.products import rounded

# The words of a shortlist are numbered by falling frequency. With 15,000 of them, over contexts of a
# search, the estimate from the first 1,000 and every 32nd other one had an error of 0.05 (s.d.).
N_FREQUENT = 1000
STEP = 32


class OutputLayer(Protocol):
    """A softmax over words, or a substitute for one."""

    def log_z(self, rows: Tensor) -> Tensor:
        """Natural log of the denominator Z of each row, *Shape:* (n, w) -> (n,)."""

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """Natural log p of a word for each row.

        Args:
            rows: *Shape:* (n, w).
            log_z: their denominators, *Shape:* (n,).
            words: *Shape:* (n,).

        Returns:
            *Shape:* (n,).
        """


class ExactOutputLayer:
    """The softmax.

    Logits of the given words are computed in float32, so that only the denominator, where
    errors average out, has the precision of the products.

    Args:
        output: the trained layer.
        dtype: of the products in the denominator.
    """

    def __init__(self, output: nn.Linear, dtype: torch.dtype) -> None:
        self.weight = output.weight.detach()
        self.bias = output.bias.detach()
        self.narrow_weight = self.weight.to(dtype)

    @cached_property
    def denominator(self) -> LogSumExp:
        """From rows to log Z; made when it is first needed."""
        return LogSumExp(self.narrow_weight, self.bias)

    def log_z(self, rows: Tensor) -> Tensor:
        """See `OutputLayer`."""
        return self.denominator(rows)

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """See `OutputLayer`."""
        logits = self._logits(rows, words)
        return logits - self._with_exact_term(log_z, rows, words, logits)

    def _logits(self, rows: Tensor, words: Tensor) -> Tensor:
        return (rows * self.weight[words]).sum(1) + self.bias[words]

    def _with_exact_term(
        self, log_z: Tensor, rows: Tensor, words: Tensor, logits: Tensor
    ) -> Tensor:
        """Denominators in which the word's own term is the float32 one, *Shape:* (n,).

        Where the network is sure of a word, that word's rounding is nearly all of the denominator's.
        """
        dtype = self.narrow_weight.dtype
        if dtype == torch.float32:
            return log_z
        narrow = (rounded(rows, dtype) * self.narrow_weight[words].float()).sum(1)
        narrow = rounded(narrow, dtype) + self.bias[words]
        return log_z + torch.log1p(torch.exp(logits - log_z) - torch.exp(narrow - log_z))


class UnnormalizedOutputLayer(ExactOutputLayer):
    """The logits alone: for networks trained to have denominators of 1."""

    def log_z(self, rows: Tensor) -> Tensor:
        """0 for each row."""
        return rows.new_zeros(len(rows))

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """The logits."""
        return self._logits(rows, words)


class EstimatedOutputLayer(ExactOutputLayer):
    """A softmax whose denominator is estimated from some of the words.

    These are the frequent words and every STEP-th of the others, weighted as STEP words.
    """

    @cached_property
    def denominator(self) -> LogSumExp:
        """From rows to an estimate of log Z."""
        weight, bias = self.narrow_weight, self.bias
        sampled = bias[N_FREQUENT::STEP]
        n_others = max(0, len(bias) - N_FREQUENT)
        share = math.log(n_others / len(sampled)) if n_others else 0.0
        some_weight = torch.cat([weight[:N_FREQUENT], weight[N_FREQUENT::STEP]])
        return LogSumExp(some_weight, torch.cat([bias[:N_FREQUENT], sampled + share]))

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """See `OutputLayer`; an estimate has no term to be made exact."""
        return self._logits(rows, words) - log_z


def start_normalised(output: nn.Linear) -> None:
    """Set the bias of an untrained output layer to -log V, so that its softmax's denominator begins near 1.

    Devlin et al. (2014), section 2.3.
    """
    nn.init.constant_(output.bias, -math.log(len(output.bias)))


def output_layer(output: nn.Linear, dtype: torch.dtype, unnormalized: bool) -> OutputLayer:
    """The exact softmax of a trained layer, or its logits alone."""
    return (UnnormalizedOutputLayer if unnormalized else ExactOutputLayer)(output, dtype)
