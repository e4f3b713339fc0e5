"""A feed-forward network of one or two hidden layers over windows of words: what CSLM and NNJM have in common.

Notation: n windows of k words, r embedding_width, d1 first_width, d2 second_width, V predicted words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rescorer.layers.output_layer import start_normalised
from rescorer.windows.first_layer import first_layer, first_layer_tables

# Cho et al. (2014), section 4.1.2.
INITIAL_RANGE = 0.01


class LayerWidths(NamedTuple):
    """Widths of the layers below the softmax.

    Attributes:
        embedding: r, of a word's vector.
        first: d1, of the first hidden layer.
        second: d2, of the second hidden layer; 0 leaves it out, and the softmax reads the first one.
    """

    embedding: int
    first: int
    second: int

    @property
    def last(self) -> int:
        """Width of the layer below the softmax."""
        return self.second or self.first


class FeedForward(nn.Module):
    """p(word | window) = softmax(W ReLU(H2 ReLU(H1 [e(w_1) … e(w_k)]))), exactly normalised.

    Args:
        n_input_words: words that may be in a window, by number.
        window_words: k.
        widths: of the layers.
        n_words: V.
    """

    def __init__(
        self, n_input_words: int, window_words: int, widths: LayerWidths, n_words: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_input_words, widths.embedding)
        self.first = nn.Linear(window_words * widths.embedding, widths.first)
        self.second = nn.Linear(widths.first, widths.second) if widths.second else None
        self.output = nn.Linear(widths.last, n_words)
        self.initialise()

    def initialise(self) -> None:
        """Draw the output weights from U(-0.01, 0.01), those of hidden layers scaled by their fan-in.

        Cho et al. (2014) draw all weights from U(-0.01, 0.01); with the narrow layers that are the
        default here the signal would vanish, hence the scaling of the hidden layers.
        """
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.output.weight, -INITIAL_RANGE, INITIAL_RANGE)
        nn.init.zeros_(self.output.bias)
        for layer in filter(None, (self.first, self.second)):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def start_normalised(self) -> None:
        """See `rescorer.layers.output_layer.start_normalised`."""
        start_normalised(self.output)

    def hidden(self, windows: Tensor) -> Tensor:
        """The last hidden layer.

        Args:
            windows: numbers of words, *Shape:* (n, k).

        Returns:
            *Shape:* (n, d2), or (n, d1) where there is no second one.
        """
        return above_first(first_layer(self.embedding.weight, self.first, windows), self.second)

    def log_probs(self, windows: Tensor, words: Tensor) -> Tensor:
        """Natural log of p(word | window).

        Args:
            windows: numbers of words, *Shape:* (n, k).
            words: word ids, *Shape:* (n,).

        Returns:
            *Shape:* (n,).
        """
        logits = self.output(self.hidden(windows))
        return -nn.functional.cross_entropy(logits, words, reduction="none")


class FirstLayerLookup:
    """A trained network whose first layer is a sum of looked-up rows; a `Windowed`.

    Args:
        network: on the device it computes on.
    """

    def __init__(self, network: FeedForward) -> None:
        self.output = network.output
        self._bias = network.first.bias.detach()
        self._second = network.second
        self._tables = first_layer_tables(network.embedding.weight, network.first.weight)

    def hidden(self, windows: Tensor) -> Tensor:
        """See `FeedForward.hidden`."""
        first = self._bias + sum(
            table[windows[:, place]] for place, table in enumerate(self._tables)
        )
        return above_first(first, self._second)


def above_first(first: Tensor, second: nn.Linear | None) -> Tensor:
    """The last hidden layer from the first one's sums, *Shape:* (n, d1) -> (n, d2) or (n, d1)."""
    return torch.relu(first) if second is None else torch.relu(second(torch.relu(first)))
