"""Values of the words behind hidden layers: raw ones, or under a softmax."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.compiled.kept_code import njit_by_numbers
from rescorer.layers.float_bits import widened
from rescorer.layers.narrow_rows import numpy_numbers
from rescorer.layers.output_layer import OutputLayer
from rescorer.windows.hidden_layers import HiddenLayers


class Values(Protocol):
    """A function of rows (source place, previous words, word)."""

    def __call__(self, rows: NDArray[np.int32], bases: Tensor) -> NDArray[np.float32]:
        """Natural log p of the words, or an estimate of it.

        Args:
            rows: see `HiddenLayers`, *Shape:* (n, w + 1).
            bases: of the source places, *Shape:* (n_places, d1).

        Returns:
            *Shape:* (n,).
        """


class RawValues:
    """The words' logits alone: for networks trained to have denominators of 1.

    Args:
        hidden: the layers below, in whose precision the logits are computed.
        output: the trained output layer.
        log_z: what is taken from each logit: the mean of log Z, or 0 for the logit itself.
    """

    def __init__(self, hidden: HiddenLayers, output: nn.Linear, log_z: float = 0.0) -> None:
        self.hidden = hidden
        self.weight = output.weight.detach().to(hidden.dtype)
        self.bias = output.bias.detach() - log_z

    @torch.inference_mode()
    def __call__(self, rows: NDArray[np.int32], bases: Tensor) -> NDArray[np.float32]:
        """See `Values`."""
        hidden, which = self.hidden(rows, bases)
        words = rows[:, -1]
        if hidden.device.type == "cpu":
            result = np.empty(len(rows), np.float32)
            weight = numpy_numbers(self.weight)
            _logits(numpy_numbers(hidden), which, words, weight, self.bias.numpy(), result)
            return result
        chosen = torch.from_numpy(words.astype(np.int64)).to(hidden.device)
        rows_of = hidden[torch.from_numpy(which).to(hidden.device)].float()
        logits = (rows_of * self.weight[chosen].float()).sum(1) + self.bias[chosen]
        return np.asarray(logits.cpu().numpy())


class NormalisedValues:
    """The words' log-probabilities.

    Args:
        hidden: the layers below.
        layer: the softmax, exact or estimated.
    """

    def __init__(self, hidden: HiddenLayers, layer: OutputLayer) -> None:
        self.hidden = hidden
        self.layer = layer

    @torch.inference_mode()
    def __call__(self, rows: NDArray[np.int32], bases: Tensor) -> NDArray[np.float32]:
        """See `Values`."""
        hidden, which = self.hidden(rows, bases)
        hidden = hidden.float()
        chosen = torch.from_numpy(which).to(hidden.device)
        words = torch.from_numpy(rows[:, -1].astype(np.int64)).to(hidden.device)
        log_z = self.layer.log_z(hidden)[chosen]
        return np.asarray(self.layer.log_probs(hidden[chosen], log_z, words).cpu().numpy())


@njit_by_numbers(nogil=True, fastmath=True, error_model="numpy")
def _logits(hidden: Any, which: Any, words: Any, weight: Any, bias: Any, out: Any) -> None:
    """The logit of a word for each row.

    Args:
        hidden: *Shape:* (n_distinct, d).
        which: of them belongs to a row, *Shape:* (n,).
        words: *Shape:* (n,).
        weight: *Shape:* (V, d).
        bias: *Shape:* (V,).
        out: *Shape:* (n,).
    """
    for i in range(len(words)):
        one, other = hidden[which[i]], weight[words[i]]
        total = np.float32(0)
        for k in range(len(one)):
            total += widened(one[k]) * widened(other[k])
        out[i] = total + bias[words[i]]
