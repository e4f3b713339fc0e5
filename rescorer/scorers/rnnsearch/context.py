"""The encoder of RNNsearch, and the context seen by its decoder.

The encoder's gated units read a source forward and backward without padding: sources are sorted by falling
length, so those still being read at a step are the first ones. The decoder sees an attention's context
(RNNsearch), or a constant one (RNNenc).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.layers.step_linear import StepLinear
from rescorer.layers.units import GatedState, GatedUnit
from rescorer.scorers.rnnsearch.attention import Places, attend, attention_weights, new_places
from rescorer.tries.recurrent import to_device

ContextName = Literal["attention", "last-state"]


def packing(
    lens: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
    """Reading order of sources with some lengths, at least 1, *Shape:* (n_sources,), one after another.

    Returns the places read by the rows of all steps from left to right and from right to left, *Shape:* (P,)
    each, and the number of sources at each step.
    """
    order = np.argsort(-lens, kind="stable")
    firsts = (np.cumsum(lens) - lens)[order]
    steps = np.arange(int(lens.max()))[:, None]
    is_read = steps < lens[order]
    return (
        (firsts + steps)[is_read],
        (firsts + lens[order] - 1 - steps)[is_read],
        is_read.sum(axis=1).tolist(),
    )


class Encoder(nn.Module):
    """Bidirectional gated units; d is the width of each direction."""

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.to_right = GatedUnit(input_width, hidden_width)
        self.to_left = GatedUnit(input_width, hidden_width)

    def forward(self, vectors: Tensor, lens: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """The states at all places, of reading to the right and to the left, *Shape:* (P, d) each.

        `vectors` are the words', one source after another, *Shape:* (P, input_width); `lens` counts the
        places of each source, at least 1, *Shape:* (n_sources,).
        """
        forward, backward, sizes = packing(lens)
        return (
            _read(self.to_right, vectors, forward, sizes),
            _read(self.to_left, vectors, backward, sizes),
        )


def _read(unit: GatedUnit, vectors: Tensor, order: NDArray[np.int64], sizes: list[int]) -> Tensor:
    inputs = unit.inputs(vectors).index_select(0, to_device(order, vectors))
    state, states = unit.start(sizes[0]), []
    for part in torch.split(inputs, sizes):
        still = state if len(part) == len(state.hidden) else GatedState(state.hidden[: len(part)])
        state = unit.step(unit.carry(still), part)
        states.append(state.hidden)
    return torch.cat(states).index_select(0, to_device(np.argsort(order), vectors))


class Readings(NamedTuple):
    """The encoder's states at all places, (P, d), in both directions, one source after another.

    `firsts` and `lens` are the first place and the number of places of each source, *Shape:* (n_sources,).
    """

    to_right: Tensor
    to_left: Tensor
    firsts: Tensor
    lens: Tensor


class Attention(nn.Module):
    """RNNsearch: a mean of the annotations, weighted anew for each state.

    d is the width of the decoder and of each direction of the encoder, a that of the comparing layer,
    `width` that of a context.
    """

    def __init__(self, hidden_width: int, attention_width: int) -> None:
        super().__init__()
        self.width = 2 * hidden_width
        self.query = StepLinear(hidden_width, attention_width, bias=False)
        self.key = StepLinear(self.width, attention_width)
        self.energy = nn.Parameter(torch.zeros(attention_width))

    def places(self, readings: Readings) -> Places:
        """Annotations h_j, both readings side by side, and U_a h_j."""
        annotations = torch.cat([readings.to_right, readings.to_left], dim=1)
        return new_places(annotations, self.key(annotations), readings.firsts, readings.lens)

    def forward(self, hidden: Tensor, places: Places, rows: Tensor) -> Tensor:
        """The context (n, width) of each decoder state s (n, d); `rows` (n,) are the states' sources."""
        return attend(self.query(hidden), self.energy, places, rows)

    def weights(self, hidden: Tensor, places: Places, rows: Tensor) -> Tensor:
        """Weight of each state on each place of its source, *Shape:* (n, places of the longest)."""
        longest = int(places.lens.max())
        weights, _ = attention_weights(self.query(hidden), self.energy, places, rows, longest)
        return weights


class LastState(nn.Module):
    """RNNenc: always the state after the last word (appendix A.2.2 of the paper); ignores attention_width."""

    def __init__(self, hidden_width: int, attention_width: int) -> None:
        super().__init__()
        self.width = hidden_width

    def places(self, readings: Readings) -> Places:
        """One place a source."""
        last = readings.to_right.index_select(0, readings.firsts + readings.lens - 1)
        numbers = torch.arange(len(last), device=last.device)
        no_keys, lens = last[:, :0], torch.ones_like(numbers)
        return Places(last, no_keys, numbers, lens, last[:0], no_keys[:0])

    def forward(self, hidden: Tensor, places: Places, rows: Tensor) -> Tensor:
        """See `Attention.forward`."""
        return places.annotations.index_select(0, rows)


Context = Attention | LastState
CONTEXTS: dict[ContextName, type[Context]] = {"attention": Attention, "last-state": LastState}
