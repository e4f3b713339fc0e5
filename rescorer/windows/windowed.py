"""What a feed-forward network must offer to be trained and scored over windows of words."""

from __future__ import annotations

from typing import Protocol

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
