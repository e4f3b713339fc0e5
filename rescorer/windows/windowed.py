"""What a feed-forward network must offer to be trained and scored over windows of words."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

# So many rows are computed at once: their hidden layers stay in the processor's cache.
ROWS_AT_ONCE = 8192


class Windowed(Protocol):
    """A network that predicts a word from a window: a fixed number of words in fixed places.

    The architecture decides what fills the places: previous words, words of the source, or both, as
    numbers of one embedding.
    """

    @property
    def output(self) -> nn.Linear:
        """The output layer, from `hidden` to the logits of all words."""

    def hidden(self, windows: Tensor) -> Tensor:
        """What is multiplied with the output weight.

        Args:
            windows: numbers of words, *Shape:* (n, width).

        Returns:
            *Shape:* (n, w).
        """


def first_layer_tables(vectors: Tensor, weight: Tensor) -> list[Tensor]:
    """A first layer's share of each word at each place of the window, *Shape:* width x (words, d).

    Devlin et al. (2014), section 2.4: the layer is a sum over places, so a look-up replaces its product.

    Args:
        vectors: of the words, *Shape:* (words, r).
        weight: of the layer, which reads the vectors of a window side by side, *Shape:* (d, width r).
    """
    with torch.inference_mode():
        return [vectors @ block.T for block in torch.split(weight, vectors.shape[1], dim=1)]
