"""The encoder: gated units that read a source forward and backward, no word padded.

The sources are ordered by falling length, so those still being read at a step are the first ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.layers.units import GatedState, GatedUnit
from rescorer.tries.recurrent import to_device


class Packing(NamedTuple):
    """In which order the places of sources are read, step by step.

    Attributes:
        forward: the place read by each row of all steps from left to right, *Shape:* (P,).
        backward: from right to left, *Shape:* (P,).
        sizes: sources at each step.
    """

    forward: NDArray[np.int64]
    backward: NDArray[np.int64]
    sizes: list[int]


def packing(lens: NDArray[np.int64]) -> Packing:
    """The order for sources of some lengths, whose places follow source by source.

    Args:
        lens: places of each source, at least 1, *Shape:* (n_sources,).
    """
    order = np.argsort(-lens, kind="stable")
    firsts = (np.cumsum(lens) - lens)[order]
    steps = np.arange(int(lens.max()))[:, None]
    is_read = steps < lens[order]
    return Packing(
        (firsts + steps)[is_read],
        (firsts + lens[order] - 1 - steps)[is_read],
        is_read.sum(axis=1).tolist(),
    )


class Encoder(nn.Module):
    """Bidirectional gated units.

    Args:
        input_width: width of a word's vector.
        hidden_width: d, of each direction.
    """

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.to_right = GatedUnit(input_width, hidden_width)
        self.to_left = GatedUnit(input_width, hidden_width)

    def forward(self, vectors: Tensor, lens: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """The states at all places.

        Args:
            vectors: of the words, one source after another, *Shape:* (P, input_width).
            lens: places of each source, at least 1, *Shape:* (n_sources,).

        Returns:
            Those of reading to the right and to the left, *Shape:* (P, d) each.
        """
        packed = packing(lens)
        return (
            _read(self.to_right, vectors, packed.forward, packed.sizes),
            _read(self.to_left, vectors, packed.backward, packed.sizes),
        )


def _read(unit: GatedUnit, vectors: Tensor, order: NDArray[np.int64], sizes: list[int]) -> Tensor:
    inputs = unit.inputs(vectors).index_select(0, to_device(order, vectors))
    state, states = unit.start(sizes[0]), []
    for part in torch.split(inputs, sizes):
        still = state if len(part) == len(state.hidden) else GatedState(state.hidden[: len(part)])
        state = unit.step(unit.carry(still), part)
        states.append(state.hidden)
    return torch.cat(states).index_select(0, to_device(np.argsort(order), vectors))
