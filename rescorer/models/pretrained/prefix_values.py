"""Values of targets by a Transformer, each distinct prefix of a source's targets computed once.

The prefixes are a tree (`rescorer.tries.prefix_tree`). Its nodes go through the decoder level by
level: the rows of a level take the keys and values of their parents from the cache, as a beam
search does. So any decoder with a cache can be scored, whatever its positions are. The output layer
runs over all nodes at the end, tile by tile.

A value does not depend on the pairs scored with it. Rows of a level have equally many keys, and a
source is padded to a length that depends on its own length alone, so neighbours pad nothing. They
change only the number of rows of a product. With few rows a processor sums in another order, so
there are never fewer than `ROWS_STEP`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.layers.log_sum_exp import log_sum_exp
from rescorer.tries.prefix_tree import PrefixTree, build_prefix_tree

# Subwords of targets computed together: some 200 MB of keys and values with a Marian model.
SUBWORDS_AT_ONCE = 8192
# Lengths of sources, and numbers of rows, are multiples of these. In bfloat16 each new number of rows compiles
# a kernel, which is kept.
LENGTH_STEP = 16
ROWS_STEP = {torch.float32: 8, torch.bfloat16: 64}

Ids = list[int]


class Head(NamedTuple):
    """The output layer: logits are scale * states @ weight.T + bias.

    Attributes:
        weight: *Shape:* (V, d).
        bias: float32, *Shape:* (V,).
        scale: of the states.
    """

    weight: Tensor
    bias: Tensor
    scale: float = 1.0

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.weight.device

    def log_probs(
        self, states: Tensor, parents: NDArray[np.int64], words: NDArray[np.int32]
    ) -> Tensor:
        """Natural log p(word | its parent's state), float32, *Shape:* (n,).

        Args:
            states: *Shape:* (n_states, d).
            parents: the state followed by each word, *Shape:* (n,).
            words: *Shape:* (n,).
        """
        states = states.float() * self.scale
        log_z = log_sum_exp(states, self.weight, self.bias)
        rows = torch.from_numpy(parents).to(states.device)
        chosen = torch.from_numpy(words.astype(np.int64)).to(states.device)
        factors = states.to(self.weight.dtype).float()
        tiles = (torch.split(ids, SUBWORDS_AT_ONCE) for ids in (rows, chosen))
        parts = [
            (factors[some] * self.weight[ids].float()).sum(dim=1) + self.bias[ids] - log_z[some]
            for some, ids in zip(*tiles, strict=True)
        ]
        return torch.cat(parts)


class Rows(Protocol):
    """Rows of a decoder, continued word by word."""

    @property
    def states(self) -> Tensor:
        """The input of the output layer for each row, *Shape:* (n, d)."""

    def go_on(self, parents: Tensor, words: Tensor, sources: Tensor) -> None:
        """Replace the rows by rows with one word more.

        Args:
            parents: the earlier row continued by each, *Shape:* (n,).
            words: *Shape:* (n,).
            sources: the source of each, *Shape:* (n,).
        """


class Network(Protocol):
    """A pretrained network, with its output layer."""

    head: Head

    def begin(self, sources: Tensor, is_word: Tensor) -> Rows:
        """A row for each source, before the first subword of a target; see `TransformerNetwork`."""


@dataclass(frozen=True)
class Pairs:
    """Pairs as ids, with the end of sentence of targets; which is each target's source, (n,)."""

    sources: Sequence[Ids]
    which: NDArray[np.int64]
    targets: Sequence[Ids]


def prefix_values(network: Network, pairs: Pairs) -> list[NDArray[np.float64]]:
    """Natural log p of each subword of each target, given those before it and the source."""
    values = [np.empty(0)] * len(pairs.targets)
    with torch.inference_mode():
        for rows in _groups(pairs):
            for row, own in zip(rows, _values_of(network, pairs, rows), strict=True):
                values[row] = own
    return values


def padded_length(length: int) -> int:
    """The length to which a source is padded; that of an empty one, of a language model, is 0."""
    return -(-length // LENGTH_STEP) * LENGTH_STEP


def _groups(pairs: Pairs) -> Iterator[NDArray[np.int64]]:
    """Rows computed together: of sources of one padded length, targets that begin alike side by side."""
    lengths = [padded_length(len(source)) for source in pairs.sources]
    order = sorted(
        range(len(pairs.targets)),
        key=lambda row: (lengths[pairs.which[row]], pairs.which[row], pairs.targets[row]),
    )
    group, n_subwords, length = list[int](), 0, -1
    for row in order:
        own = lengths[pairs.which[row]]
        n_subwords += len(pairs.targets[row])
        if group and (own != length or n_subwords > SUBWORDS_AT_ONCE):
            yield np.array(group)
            group, n_subwords = [], len(pairs.targets[row])
        group.append(row)
        length = own
    if group:
        yield np.array(group)


def _values_of(
    network: Network, pairs: Pairs, rows: NDArray[np.int64]
) -> list[NDArray[np.float64]]:
    numbers, groups = np.unique(pairs.which[rows], return_inverse=True)
    sources = [pairs.sources[number] for number in numbers]
    targets = [pairs.targets[row] for row in rows]
    lens = np.array([len(target) for target in targets])
    tree = build_prefix_tree(_padded(targets, int(lens.max())), lens, groups, len(sources))
    states, parents = _states_of(network, sources, tree)
    log_probs = network.head.log_probs(states, parents, tree.words).double().cpu().numpy()
    starts = np.cumsum([0, *tree.sizes[:-1]])
    return [
        log_probs[starts[:n_subwords] + path[:n_subwords]]
        for path, n_subwords in zip(tree.paths, tree.lens, strict=True)
    ]


def _padded(rows: Sequence[Ids], length: int) -> NDArray[np.int32]:
    ids = np.zeros((len(rows), length), np.int32)
    for row, own in zip(ids, rows, strict=True):
        row[: len(own)] = own
    return ids


def _states_of(
    network: Network, sources: Sequence[Ids], tree: PrefixTree
) -> tuple[Tensor, NDArray[np.int64]]:
    """The states of the roots and of all nodes with children, and the state before each node.

    Returns:
        *Shape:* (n_states, d) and (n_nodes,).
    """
    step = ROWS_STEP[network.head.weight.dtype]
    live = _source_rows(network, sources, step)
    kept, n_kept = [live.states], len(live.states)
    places = np.arange(len(sources))  # the row of each node of the level before that has children
    of_nodes = places  # its source
    parents = [places[tree.levels[0].parents]]
    for level, after in zip(tree.levels, tree.levels[1:], strict=False):
        inner = np.unique(after.parents)
        before = padded_to_step(level.parents[inner], step)
        sources_of = of_nodes[level.parents]
        live.go_on(
            _tensor(places[before], network),
            _tensor(padded_to_step(level.words[inner].astype(np.int64), step), network),
            _tensor(of_nodes[before], network),
        )
        places = np.full(len(level), -1)
        places[inner] = np.arange(len(inner))
        of_nodes = sources_of
        parents.append(n_kept + places[after.parents])
        kept.append(live.states)
        n_kept += len(live.states)
    return torch.cat(kept), np.concatenate(parents)


def _source_rows(network: Network, sources: Sequence[Ids], step: int) -> Rows:
    """The rows of the sources, filled up with the first one."""
    length = padded_length(len(sources[0]))
    lens = np.array([len(source) for source in sources])
    ids = _padded(sources, length).astype(np.int64)
    is_word = np.arange(length) < lens[:, None]
    rows = padded_to_step(np.arange(len(sources)), step)
    return network.begin(_tensor(ids[rows], network), _tensor(is_word[rows], network))


def padded_to_step(rows: NDArray[np.int64], step: int) -> NDArray[np.int64]:
    """Some rows up to a multiple of step; those added repeat the first one."""
    n_added = -len(rows) % step
    return np.concatenate([rows, np.repeat(rows[:1], n_added)])


def _tensor(values: NDArray[Any], network: Network) -> Tensor:
    return torch.from_numpy(values).to(network.head.device)
