"""Log-probabilities of words from the rows before the output layer: log Z, and logits of given words.

The linear part of log Z can be removed from a trained layer. Subtracting v from each word's weights and c
from each word's bias lowers all logits of a row h, and log Z, by v h + c: no probability changes. With v and
c from the least squares of log Z over h, the logits alone are nearer to log-probabilities than training on
log^2 Z brings them in the same time.

Notation: n rows, w width of a row, V words.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterable
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn

from rescorer.layers.log_sum_exp import log_sum_exp
from rescorer.layers.products import rounded

# The words of a shortlist are numbered by falling frequency. With 15,000 of them, over contexts of a
# search, the estimate from the first 1,000 and every 32nd other one had an error of 0.05 (s.d.).
N_FREQUENT = 1000
STEP = 32
# Of threads on a GPU. The rows of a table came no faster with more, and each has gigabytes of logits there.
GPU_TURNS = threading.BoundedSemaphore(2)
# Of the mean square of a unit: keeps units that are always 0 from having any coefficient.
RIDGE = 1e-6


class OutputLayer(Protocol):
    """A softmax over words, or a substitute for one."""

    def log_z(self, rows: Tensor) -> Tensor:
        """Natural log of the denominator Z of each row, *Shape:* (n, w) -> (n,)."""

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """Natural log p of a word (n,) for each row (n, w) with its log Z (n,): *Shape:* (n,)."""


class ExactOutputLayer:
    """The softmax.

    Logits of the given words are computed in float32; only the products of the denominator, where errors
    average out, have the type `dtype`.
    """

    def __init__(self, output: nn.Linear, dtype: torch.dtype) -> None:
        self.weight = output.weight.detach()
        self.bias = output.bias.detach()
        self.narrow_weight = self.weight.to(dtype)

    def log_z(self, rows: Tensor) -> Tensor:
        """See `OutputLayer`."""
        return log_sum_exp(rows, self.narrow_weight, self.bias)

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """See `OutputLayer`."""
        logits = self._logits(rows, words)
        return logits - self._with_exact_term(log_z, rows, words, logits)

    def _logits(self, rows: Tensor, words: Tensor) -> Tensor:
        return (rows * self.weight[words]).sum(1) + self.bias[words]

    def _with_exact_term(
        self, log_z: Tensor, rows: Tensor, words: Tensor, logits: Tensor
    ) -> Tensor:
        """Replace the word's own term of the denominators by the float32 one, *Shape:* (n,)."""
        # Where the network is sure of a word, that word's rounding is nearly all of the denominator's.
        dtype = self.narrow_weight.dtype
        if dtype == torch.float32:
            return log_z
        narrow = (rounded(rows, dtype) * self.narrow_weight[words].float()).sum(1)
        narrow = rounded(narrow, dtype) + self.bias[words]
        return log_z + torch.log1p(torch.exp(logits - log_z) - torch.exp(narrow - log_z))


class UnnormalizedOutputLayer(ExactOutputLayer):
    """The logits alone, for networks trained to have denominators of 1."""

    def log_z(self, rows: Tensor) -> Tensor:
        """0 for each row."""
        return rows.new_zeros(len(rows))

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """The logits."""
        return self._logits(rows, words)


class EstimatedOutputLayer(ExactOutputLayer):
    """A softmax with a denominator estimated from the frequent words and every STEP-th of the others."""

    @cached_property
    def _sample(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the words of the estimate."""
        weight, bias = self.narrow_weight, self.bias
        sampled = bias[N_FREQUENT::STEP]
        n_others = max(0, len(bias) - N_FREQUENT)
        share = math.log(n_others / len(sampled)) if n_others else 0.0
        some_weight = torch.cat([weight[:N_FREQUENT], weight[N_FREQUENT::STEP]])
        return some_weight, torch.cat([bias[:N_FREQUENT], sampled + share])

    def log_z(self, rows: Tensor) -> Tensor:
        """See `OutputLayer`; an estimate."""
        return log_sum_exp(rows, *self._sample)

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """See `OutputLayer`; an estimate has no term to make exact."""
        return self._logits(rows, words) - log_z


def start_normalised(output: nn.Linear) -> None:
    """Set the bias of an untrained output layer to -log V, so that its denominator starts near 1.

    Devlin et al. (2014), section 2.3.
    """
    nn.init.constant_(output.bias, -math.log(len(output.bias)))


def output_layer(output: nn.Linear, dtype: torch.dtype, unnormalized: bool) -> OutputLayer:
    """The exact softmax of a trained layer, or its logits alone."""
    return (UnnormalizedOutputLayer if unnormalized else ExactOutputLayer)(output, dtype)


def turn(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """The lock a scoring thread holds while it computes on a device: a GPU serves few threads at a time."""
    return contextlib.nullcontext() if device.type == "cpu" else GPU_TURNS


@torch.no_grad()
def flatten_log_z(output: nn.Linear, parts: Iterable[Tensor]) -> None:
    """Bring log Z of a trained output layer near 0, in place, by typical rows, (n, w); without any it stays."""
    width = output.in_features + 1
    squares, products = torch.zeros(width, width).double(), torch.zeros(width).double()
    for rows in parts:
        log_z = log_sum_exp(rows, output.weight, output.bias).double().cpu()
        known = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1).double().cpu()
        squares += known.T @ known
        products += known.T @ log_z
    if not products.any():
        return
    squares.diagonal().add_(RIDGE * squares.diagonal().mean())
    coefficients = torch.linalg.solve(squares, products).to(output.weight)
    output.weight.sub_(coefficients[:-1])
    output.bias.sub_(coefficients[-1])
