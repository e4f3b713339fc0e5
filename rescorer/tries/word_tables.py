"""A trained network made ready for scoring: products of single words are computed once, in tables."""

from __future__ import annotations

from typing import Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.tries.recurrent import Carried, Inputs, Recurrent, Source, State


class WordTables(Generic[Source, State, Carried, Inputs]):
    """What `Recurrent` asks for but `inputs`, which a subclass looks up; the rest is left to a network.

    Args:
        network: makes the steps.
        output: the trained output layer.
    """

    def __init__(
        self, network: Recurrent[Source, State, Carried, Inputs], output: nn.Linear
    ) -> None:
        self.output = output
        self._network = network

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Source:
        """See `Recurrent.read`."""
        return self._network.read(ids, lens)

    def start(self, source: Source) -> State:
        """See `Recurrent.start`."""
        return self._network.start(source)

    def carry(self, state: State) -> Carried:
        """See `Recurrent.carry`."""
        return self._network.carry(state)

    def step(self, carried: Carried, inputs: Inputs, source: Source) -> State:
        """See `Recurrent.step`."""
        return self._network.step(carried, inputs, source)

    def factors(self, state: State, inputs: Inputs, source: Source) -> Tensor:
        """See `Recurrent.factors`."""
        return self._network.factors(state, inputs, source)


def with_no_word(vectors: Tensor) -> Tensor:
    """Vectors of words with one more row of zeros: NO_WORD is -1, so it takes the last one.

    Args:
        vectors: *Shape:* (n_words, r).

    Returns:
        *Shape:* (n_words + 1, r).
    """
    return torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
