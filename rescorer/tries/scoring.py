"""Log-probabilities of a block of pairs by walking tries, each level one batch.

A block repeats itself: a source is read once, a step is made once for each distinct (source, target
prefix), and a node has one softmax denominator, which all its children and </s> share. What a pair gets
is the sum along its path, whatever else is in the block.

Notation: w width of the output layer's input; S distinct sources; n rows of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.contract import Batch, Shortlists
from rescorer.softmax.output_layer import OutputLayer
from rescorer.tries.prefix_tree import PrefixTree, build_prefix_tree
from rescorer.tries.recurrent import (
    NO_WORD,
    Carried,
    Inputs,
    Recurrent,
    Source,
    State,
    carried_once,
    joined,
    pieces,
    take,
    to_device,
)
from rescorer.vocabulary import Vocabulary


class _Predictions(NamedTuple):
    """What predicts the next word of some nodes.

    Attributes:
        factors: what is multiplied with the output weight, *Shape:* (n_nodes, w).
        log_z: log of the softmax's denominator, *Shape:* (n_nodes,).
    """

    factors: Tensor
    log_z: Tensor


class _Prefixes(NamedTuple):
    """The nodes of one target level.

    Attributes:
        log_probs: of the prefix, float64, *Shape:* (n_nodes,).
        groups: the source of each node, *Shape:* (n_nodes,).
    """

    log_probs: Tensor
    groups: Tensor


class TrieScorer(Generic[Source, State, Carried, Inputs]):
    """Natural log p(target | source) of a recurrent network, for whole tables.

    Several threads may use one scorer.

    Args:
        network: on the device where it shall compute.
        layer: its output layer.
        shortlists: ids of the words; without a source shortlist all targets share one empty source.
    """

    needs_links = False

    def __init__(
        self,
        network: Recurrent[Source, State, Carried, Inputs],
        layer: OutputLayer,
        shortlists: Shortlists,
    ) -> None:
        self.network = network
        self.layer = layer
        self.shortlists = shortlists

    @property
    def shortlist(self) -> Vocabulary:
        """The target words that the network knows."""
        return self.shortlists.target

    @torch.inference_mode()
    def values(self, asked: Batch) -> NDArray[np.float64]:
        """Natural log p(target | source), </s> included; see `contract.Scorer`."""
        if not len(asked):
            return np.zeros(0)
        sources, groups = self._distinct(asked.sources)
        source = self.network.read(*sources)
        ids, lens = self.shortlists.target.encode_phrases(asked.targets)
        return self._walk(build_prefix_tree(ids, lens, groups, len(sources[0])), source)

    def _distinct(
        self, sources: Sequence[bytes]
    ) -> tuple[tuple[NDArray[np.int32], NDArray[np.int64]], NDArray[np.int64]]:
        """Ids and lengths of the distinct sources, and which of them each pair has."""
        vocabulary = self.shortlists.source
        if vocabulary is None:
            empty = np.full((1, 1), Vocabulary.end_id, np.int32), np.zeros(1, np.int64)
            return empty, np.zeros(len(sources), np.int64)
        numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
        groups = np.fromiter((numbers[source] for source in sources), np.int64, len(sources))
        return vocabulary.encode_phrases(list(numbers)), groups

    def _walk(self, tree: PrefixTree, source: Source) -> NDArray[np.float64]:
        result = np.empty(len(tree.lens))
        state = self.network.start(source)
        roots = torch.arange(tree.n_groups, device=self.network.output.weight.device)
        prefixes = _Prefixes(torch.zeros(len(roots), dtype=torch.float64).to(roots.device), roots)
        no_words = torch.full_like(roots, NO_WORD)
        state, predictions = self._advance(state, roots, no_words, roots, source)
        self._finish(tree, 0, prefixes, predictions, result)
        for depth, level in enumerate(tree.levels, start=1):
            parents, words = to_device(level.parents, roots), to_device(level.words, roots)
            log_probs = prefixes.log_probs[parents] + self._log_probs(predictions, parents, words)
            prefixes = _Prefixes(log_probs, prefixes.groups[parents])
            state, predictions = self._advance(state, parents, words, prefixes.groups, source)
            self._finish(tree, depth, prefixes, predictions, result)
        return result

    def _advance(
        self, state: State, parents: Tensor, words: Tensor, groups: Tensor, source: Source
    ) -> tuple[State, _Predictions]:
        """States and predictions of a level, from the states of the level above."""
        network = self.network
        carried, which = carried_once(network.carry, state, parents)
        states, predictions = [], []
        for parent, word, group in pieces(which, words, groups):
            inputs = network.inputs(word, source, group)
            states.append(network.step(take(carried, parent), inputs, source))
            factors = network.factors(states[-1], inputs, source)
            predictions.append(_Predictions(factors, self.layer.log_z(factors)))
        return joined(states), joined(predictions)

    def _finish(
        self,
        tree: PrefixTree,
        depth: int,
        prefixes: _Prefixes,
        predictions: _Predictions,
        result: NDArray[np.float64],
    ) -> None:
        """Write the rows that end in a level: the prefix, then </s>."""
        rows, nodes = tree.rows_ending(depth)
        ends = to_device(nodes, prefixes.groups)
        words = torch.full_like(ends, Vocabulary.end_id)
        total = prefixes.log_probs[ends] + self._log_probs(predictions, ends, words)
        result[rows] = total.cpu().numpy()

    def _log_probs(self, predictions: _Predictions, nodes: Tensor, words: Tensor) -> Tensor:
        """Natural log p(word | prefix) for pairs of a node and a word, float64, *Shape:* (n,)."""
        parts = [
            self.layer.log_probs(*take(predictions, node), word)
            for node, word in pieces(nodes, words)
        ]
        return torch.cat(parts).double()
