"""The interface of a recurrent network that is trained and scored over tries.

A node of a target trie is a target prefix of a source. Its state comes from its parent's state, its last word
and its source. States, sources and inputs are named tuples of tensors with one row an item, so an LSTM has
two fields where a gated unit has one, and an attention keeps its annotations in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.layers.gated_levels import are_first_children, gated_states, has_compiled_levels
from rescorer.layers.products import on_device
from rescorer.layers.units import GatedUnit, Unit
from rescorer.tries.prefix_tree import PrefixTree

# The previous word of a first step: there is none.
NO_WORD = -1
# So many nodes are computed at once: their rows stay in the processor's cache between operations.
NODES_AT_ONCE = 2048
# On a GPU: 1.3 GB with states of 1,000 numbers, and seldom more than one piece a level.
DEVICE_NODES_AT_ONCE = 2**15

Fields = TypeVar("Fields", bound=tuple[Tensor, ...])
Source = TypeVar("Source", bound=tuple[Any, ...])
State = TypeVar("State", bound=tuple[Tensor, ...])
Carried = TypeVar("Carried", bound=tuple[Tensor, ...])
Inputs = TypeVar("Inputs", bound=tuple[Tensor, ...])


class Recurrent(Protocol[Source, State, Carried, Inputs]):
    """A network that reads a source and then goes through the target word by word."""

    @property
    def output(self) -> nn.Linear:
        """The output layer, from `factors` to the logits of all words."""

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Source:
        """Read the sources for the steps: ids, </s> after each, (n, max_len + 1), words without it, (n,)."""

    def start(self, source: Source) -> State:
        """The state before the first step of each source."""

    def inputs(self, words: Tensor, source: Source, rows: Tensor) -> Inputs:
        """The inputs of steps from their previous words (NO_WORD at the first one) and sources, (n,) each."""

    def carry(self, state: State) -> Carried:
        """The states with the products that all steps from them share."""

    def step(self, carried: Carried, inputs: Inputs, source: Source) -> State:
        """The next states."""

    def factors(self, state: State, inputs: Inputs, source: Source) -> Tensor:
        """The input of the output layer, *Shape:* (n, w)."""


@runtime_checkable
class StatesAtOnce(Protocol):
    """A network that finds the states of a whole trie faster than step by step."""

    def states(
        self, start: Any, parents: Sequence[NDArray[np.int64]], inputs: Any, source: Any
    ) -> Any:
        """The states of all nodes, level by level, from those before the first level and all inputs.

        The parents of a level's nodes are in the level before, rising; those of the first one in `start`.
        """


def take(fields: Fields, rows: Tensor) -> Fields:
    """The rows of each field."""
    # The gradient of field[rows] is summed by all threads at once, in an order that changes from run to run.
    return like(fields, (field.index_select(0, rows) for field in fields))


def joined(parts: Sequence[Fields]) -> Fields:
    """The rows of several tuples, one after another."""
    if len(parts) == 1:
        return parts[0]
    return like(parts[0], map(torch.cat, zip(*parts, strict=True)))


def split(fields: Fields, sizes: Sequence[int]) -> list[Fields]:
    """The fields cut into parts of the given sizes."""
    columns = (torch.split(field, list(sizes)) for field in fields)
    return [like(fields, part) for part in zip(*columns, strict=True)]


def like(fields: Fields, values: Any) -> Fields:
    """A tuple of the same type with other values."""
    return cast(Fields, cast(Any, type(fields))(*values))


def pieces(*columns: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Equal pieces of several columns, small enough for the cache; one empty piece of none."""
    size = NODES_AT_ONCE if columns[0].device.type == "cpu" else DEVICE_NODES_AT_ONCE
    return zip(*(torch.split(column, size) for column in columns), strict=True)


def carried_once(
    carry: Callable[[State], Carried], state: State, parents: NDArray[np.int64]
) -> tuple[Carried, Tensor]:
    """Products of the states of a level with children, each once, and which each child has, (n_children,).

    `parents` are rising, *Shape:* (n_children,).
    """
    is_first = are_first_children(parents)
    distinct = parents[is_first]
    if len(distinct) == len(state[0]):
        parts = [like(state, part) for part in pieces(*state)]
    else:
        parts = [take(state, rows) for (rows,) in pieces(to_device(distinct, state[0]))]
    return joined([carry(part) for part in parts]), to_device(np.cumsum(is_first) - 1, state[0])


def network_states(
    network: Recurrent[Source, State, Carried, Inputs],
    start: State,
    parents: Sequence[NDArray[np.int64]],
    inputs: Inputs,
    source: Source,
) -> State:
    """The states of all nodes of a trie, level by level; see `StatesAtOnce.states`."""
    if isinstance(network, StatesAtOnce):
        return cast(State, network.states(start, parents, inputs, source))

    def step(carried: Carried, which: Tensor, part: Inputs) -> State:
        # Each parent has a child, so as many children as parents are in the parents' order.
        is_whole = len(which) == len(carried[0])
        return network.step(carried if is_whole else take(carried, which), part, source)

    return _by_levels(network.carry, step, start, parents, split(inputs, [*map(len, parents)]))


def unit_states(
    unit: Unit[State, Carried], start: State, parents: Sequence[NDArray[np.int64]], inputs: Tensor
) -> State:
    """The states of all nodes of a tree, where nothing but a unit makes the steps; see `StatesAtOnce.states`.

    `inputs` are `Unit.inputs` of all nodes, level by level, *Shape:* (n_nodes, any).
    """
    if has_compiled_levels(unit, inputs):
        return unit.state(gated_states(cast(GatedUnit, unit), start[0], parents, inputs))

    def step(carried: Carried, which: Tensor, part: Tensor) -> State:
        return joined([unit.step(*one) for one in _carried_parts(carried, which, part)])

    level_inputs = torch.split(inputs, [*map(len, parents)])
    return _by_levels(unit.carry, step, start, parents, level_inputs)


def _by_levels(
    carry: Callable[[State], Carried],
    step: Callable[[Carried, Tensor, Any], State],
    start: State,
    parents: Sequence[NDArray[np.int64]],
    inputs: Sequence[Any],
) -> State:
    """The states of all nodes, level by level; `step` takes `carried_once` and a level's inputs."""
    state, states = start, []
    for of_level, part in zip(parents, inputs, strict=True):
        carried, which = carried_once(carry, state, of_level)
        state = step(carried, which, part)
        states.append(state)
    return joined(states)


def _carried_parts(
    carried: Carried, which: Tensor, inputs: Tensor
) -> Iterator[tuple[Carried, Tensor]]:
    """Pieces of the result of `carried_once`, one row a child, and of the children's inputs."""
    if len(which) == len(carried[0]):
        for *part, part_inputs in pieces(*carried, inputs):
            yield like(carried, part), part_inputs
    else:
        for rows, part_inputs in pieces(which, inputs):
            yield take(carried, rows), part_inputs


def last_states(unit: Unit[State, Carried], tree: PrefixTree, inputs: Tensor) -> State:
    """The state after the last word of each row, none of them empty, of a tree with one root.

    `inputs` are `Unit.inputs` of the words of all nodes, level by level, *Shape:* (n_nodes, any).
    """
    parents = [level.parents for level in tree.levels]
    states = unit_states(unit, unit.start(tree.n_groups), parents, inputs)
    return take(states, to_device(tree.last_nodes, inputs))


def to_device(numbers: NDArray[np.int32] | NDArray[np.int64], other: Tensor) -> Tensor:
    """Numbers as int64 on the device of another tensor."""
    return on_device(numbers.astype(np.int64), other.device)


def word_vectors(embedding: nn.Embedding, words: Tensor) -> Tensor:
    """Vectors of previous words, 0 of NO_WORD, *Shape:* (n,) -> (n, r)."""
    vectors: Tensor = embedding(words.clamp(min=0))
    return vectors * (words != NO_WORD).unsqueeze(1)
