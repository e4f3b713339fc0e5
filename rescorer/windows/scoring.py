"""Log-probabilities of sentences under a network over windows of words, each distinct window computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.contract.batch import Batch
from rescorer.contract.scorer import WordLogProbs
from rescorer.contract.vocabulary import Vocabulary
from rescorer.layers.output_layer import OutputLayer, turn
from rescorer.windows.ngrams import distinct_rows

# So many rows are computed at once: their hidden layers stay in the processor's cache.
ROWS_AT_ONCE = 8192


class Windowed(Protocol):
    """A network that predicts a word from a window: a fixed number of words in fixed places.

    The architecture decides what the places hold: previous words, words of the source, or both, as numbers of
    one embedding.
    """

    @property
    def output(self) -> nn.Linear:
        """The output layer, from `hidden` to the logits of all words."""

    def hidden(self, windows: Tensor) -> Tensor:
        """The input of the output layer, from numbers of words: *Shape:* (n, width) -> (n, w)."""


class FilledWindows(NamedTuple):
    """Windows, each followed by the predicted word, *Shape:* (n, width + 1), and the pair of each, (n,)."""

    rows: NDArray[np.int32]
    pairs: NDArray[np.int64]


@dataclass(eq=False)
class WindowScorer:
    """Natural log p of whole pairs, including </s>; words outside the shortlist are <unk>.

    Several threads may use one scorer. The network is on the device it computes on, and predicts the words of
    the shortlist; `fill` makes the windows of pairs, and may need their word links.
    """

    network: Windowed
    layer: OutputLayer
    shortlist: Vocabulary
    fill: Callable[[Batch], FilledWindows]
    needs_links: bool = False

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Natural log p of each pair; see `contract.Scorer`."""
        log_probs, pairs = self.word_log_probs(batch)
        return np.bincount(pairs, weights=log_probs, minlength=len(batch)).astype(np.float64)

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        """Natural log of each word given its window; see `contract.WordScorer`."""
        if not len(batch):
            return WordLogProbs(np.zeros(0), np.zeros(0, np.int64))
        rows, pairs = self.fill(batch)
        distinct, inverse = distinct_rows(rows)
        with turn(self.network.output.weight.device):
            log_probs = window_log_probs(self.network, self.layer, distinct)
        return WordLogProbs(log_probs[inverse], pairs)


@torch.inference_mode()
def window_log_probs(
    network: Windowed, layer: OutputLayer, rows: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Natural log p(word | window), (n,), of rows (n, width + 1): windows followed by the predicted word."""
    device = network.output.weight.device
    windows, window_of = distinct_rows(rows[:, :-1])
    hidden = _hidden(network, torch.from_numpy(windows).long().to(device))
    log_z = layer.log_z(hidden)
    which = torch.from_numpy(window_of).to(device)
    words = torch.from_numpy(rows[:, -1].astype(np.int64)).to(device)
    log_probs = layer.log_probs(hidden[which], log_z[which], words)
    return log_probs.double().cpu().numpy()


def _hidden(network: Windowed, windows: Tensor) -> Tensor:
    return torch.cat([network.hidden(part) for part in torch.split(windows, ROWS_AT_ONCE)])
