"""Log-probabilities of a block of pairs by walking tries, each level one batch.

A block repeats itself: a source is read once, a step is made once for each distinct (source, target prefix),
and a node has one softmax denominator, shared by all its children and </s>. The value of a pair is the sum
along its path, independent of the rest of the block.

Notation: w width of the output layer's input; S distinct sources; n rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.contract.architectures import Summaries
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.object_reference import imported_when_called
from rescorer.contract.scorer import WordLogProbs
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.output_layer import OutputLayer, turn
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
from rescorer.tries.tiles import Tiles, can_be_tiled

if TYPE_CHECKING:
    from rescorer.contract.target_generation import TargetGenerator


# Words of sources read at a time: their annotations, of 1,000 numbers each in float32, are 131 MB.
# A block has more where hypotheses are the sources: those of a model with reversed sides.
SOURCE_WORDS_AT_ONCE = 32_768


# On the device that computes, or on the host.
Values = TypeVar("Values", Tensor, NDArray[np.float64])


class _Predictions(NamedTuple):
    """Predictions of the next word: input of the output layer, *Shape:* (n_nodes, w), and log Z, (n_nodes,)."""

    factors: Tensor
    log_z: Tensor


class _Depth(NamedTuple, Generic[Values]):
    """The nodes of one target level (of depth 0: the roots), and the rows that end in it."""

    parents: NDArray[np.int64]  # of each node in the level before, (n_nodes,)
    log_probs: Values  # natural log p(word of the node | prefix), 0 for roots, (n_nodes,)
    rows: NDArray[np.int64]  # that end here, (n_rows,)
    ends: NDArray[np.int64]  # the node of each of them, (n_rows,)
    end_log_probs: Values  # natural log p(</s> | prefix) of each of them, (n_rows,)


class TrieScorer(Generic[Source, State, Carried, Inputs]):
    """Natural log p(target | source) of a recurrent network, for whole tables.

    Several threads may use one scorer. The network is on the device it computes on; without a source shortlist
    all targets share one empty source.
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
        self.shortlists, self.shortlist = shortlists, shortlists.target
        self.tiles: Tiles | None = None
        if network.output.weight.device.type == "cuda" and can_be_tiled(network):
            self.tiles = Tiles(network, layer)

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Natural log p(target | source), </s> included; see `contract.Scorer`."""
        return np.concatenate([np.zeros(0), *map(self._values, self._parts(batch))])

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The pairs in runs that fit into the memory."""
        runs = [batch] if self.tiles is None else batch.parts(self.tiles.most_pairs)
        return chain.from_iterable(map(self._runs_of_sources, runs))

    def _runs_of_sources(self, batch: Batch) -> Iterator[Batch]:
        """The pairs in runs whose distinct sources have not too many words; a source too long is alone."""
        if self.shortlists.source is None:
            yield from [batch] if len(batch) else []
            return
        first, n_words, seen = 0, 0, set[bytes]()
        for row, source in enumerate(batch.sources):
            if source in seen:
                continue
            size = source.count(b" ") + 2
            if row > first and n_words + size > SOURCE_WORDS_AT_ONCE:
                yield Batch(batch.sources[first:row], batch.targets[first:row])
                first, n_words, seen = row, 0, set()
            seen.add(source)
            n_words += size
        if first < len(batch):
            yield Batch(batch.sources[first:], batch.targets[first:])

    def _values(self, batch: Batch) -> NDArray[np.float64]:
        tree, depths = self._depths(batch)
        result, prefixes = np.empty(len(tree.lens)), np.zeros(tree.n_groups)
        for depth in depths:
            prefixes = prefixes[depth.parents] + depth.log_probs
            result[depth.rows] = prefixes[depth.ends] + depth.end_log_probs
        return result

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        """Natural log of each word given the words before; see `contract.WordScorer`."""
        found, n_pairs = [WordLogProbs(np.zeros(0), np.zeros(0, np.int64))], 0
        for part in self._parts(batch):
            one = self._word_log_probs(part)
            found.append(one._replace(pairs=one.pairs + n_pairs))
            n_pairs += len(part)
        return WordLogProbs(*map(np.concatenate, zip(*found, strict=True)))

    def _word_log_probs(self, batch: Batch) -> WordLogProbs:
        tree, depths = self._depths(batch)
        by_place = np.zeros((len(tree.lens), len(tree.levels) + 1))
        for number, depth in enumerate(depths):
            by_place[depth.rows, number] = depth.end_log_probs
            if number:
                through = np.flatnonzero(tree.lens >= number)
                by_place[through, number - 1] = depth.log_probs[tree.paths[through, number - 1]]
        inside = np.arange(by_place.shape[1]) <= tree.lens[:, None]
        return WordLogProbs(by_place[inside], np.nonzero(inside)[0])

    @torch.inference_mode()
    def _depths(self, batch: Batch) -> tuple[PrefixTree, list[_Depth[NDArray[np.float64]]]]:
        """The targets' tree, and its levels, the roots first."""
        sources, groups = self._distinct(batch.sources)
        ids, lens = self.shortlists.target.encode_phrases(batch.targets)
        tree = build_prefix_tree(ids, lens, groups, len(sources[0]))
        if self.tiles is not None:
            return tree, _of_tiles(tree, self.tiles.log_probs(tree, sources))
        with turn(self.network.output.weight.device):
            return tree, list(_on_host(self._walk(tree, self.network.read(*sources))))

    def _distinct(
        self, sources: Sequence[bytes]
    ) -> tuple[tuple[NDArray[np.int32], NDArray[np.int64]], NDArray[np.int64]]:
        """Ids and lengths of the distinct sources, and the index into them of each pair."""
        vocabulary = self.shortlists.source
        if vocabulary is None:
            empty = np.full((1, 1), Vocabulary.end_id, np.int32), np.zeros(1, np.int64)
            return empty, np.zeros(len(sources), np.int64)
        different, groups = distinct(sources)
        return vocabulary.encode_phrases(different), groups

    def _walk(self, tree: PrefixTree, source: Source) -> Iterator[_Depth[Tensor]]:
        """Level by level, the roots first."""
        roots = np.arange(tree.n_groups)
        state = self.network.start(source)
        groups = to_device(roots, self.network.output.weight)
        no_words = torch.full_like(groups, NO_WORD)
        state, predictions = self._advance(state, roots, no_words, groups, source)
        yield self._depth(tree, 0, roots, torch.zeros_like(predictions.log_z), predictions)
        for number, level in enumerate(tree.levels, start=1):
            parents, words = to_device(level.parents, groups), to_device(level.words, groups)
            log_probs = self._log_probs(predictions, parents, words)
            groups = groups[parents]
            state, predictions = self._advance(state, level.parents, words, groups, source)
            yield self._depth(tree, number, level.parents, log_probs, predictions)

    def _advance(
        self,
        state: State,
        parents: NDArray[np.int64],
        words: Tensor,
        groups: Tensor,
        source: Source,
    ) -> tuple[State, _Predictions]:
        network = self.network
        carried, which = carried_once(network.carry, state, parents)
        states, predictions = [], []
        for parent, word, group in pieces(which, words, groups):
            inputs = network.inputs(word, source, group)
            states.append(network.step(take(carried, parent), inputs, source))
            factors = network.factors(states[-1], inputs, source)
            predictions.append(_Predictions(factors, self.layer.log_z(factors)))
        return joined(states), joined(predictions)

    def _depth(
        self,
        tree: PrefixTree,
        number: int,
        parents: NDArray[np.int64],
        log_probs: Tensor,
        predictions: _Predictions,
    ) -> _Depth[Tensor]:
        rows, nodes = tree.rows_ending(number)
        ends = to_device(nodes, predictions.log_z)
        words = torch.full_like(ends, Vocabulary.end_id)
        return _Depth(parents, log_probs, rows, nodes, self._log_probs(predictions, ends, words))

    def _log_probs(self, predictions: _Predictions, nodes: Tensor, words: Tensor) -> Tensor:
        """Natural log p(word | prefix) for pairs of a node and a word, *Shape:* (n,)."""
        parts = [
            self.layer.log_probs(*take(predictions, node), word)
            for node, word in pieces(nodes, words)
        ]
        return torch.cat(parts)


def _on_host(depths: Iterable[_Depth[Tensor]]) -> Iterator[_Depth[NDArray[np.float64]]]:
    """The same with float64 in the host's memory: a GPU is waited for once, not twice a level."""
    every = list(depths)
    columns = [column for depth in every for column in (depth.log_probs, depth.end_log_probs)]
    whole = torch.cat(columns).double().cpu().numpy()
    parts = iter(np.split(whole, np.cumsum([*map(len, columns)])[:-1]))
    for depth in every:
        log_probs, end_log_probs = next(parts), next(parts)
        yield _Depth(depth.parents, log_probs, depth.rows, depth.ends, end_log_probs)


def _of_tiles(
    tree: PrefixTree, log_probs: Iterable[NDArray[np.float64]]
) -> list[_Depth[NDArray[np.float64]]]:
    """The levels from the result of `Tiles.log_probs`."""
    found, parents = [], [np.arange(tree.n_groups), *(level.parents for level in tree.levels)]
    for depth, (own_parents, (words, ends)) in enumerate(zip(parents, log_probs, strict=True)):
        rows, nodes = tree.rows_ending(depth)
        of_words = words if depth else np.zeros_like(words)
        found.append(_Depth(own_parents, of_words, rows, nodes, ends[nodes]))
    return found


class ValueScorer:
    """The scorer of a network that predicts no word: the values of a function of one pair or more, (n_pairs,).

    Several threads may use one scorer.
    """

    needs_links = False

    def __init__(self, values_of: Callable[[Batch], Tensor], shortlist: Vocabulary) -> None:
        self.shortlist, self._values_of = shortlist, values_of

    @torch.inference_mode()
    def values(self, batch: Batch) -> NDArray[np.float64]:
        """See `contract.Scorer`."""
        return self._values_of(batch).double().cpu().numpy() if len(batch) else np.zeros(0)


def generator_with(
    new_scorer: Callable[[TrainedModel[Any], Compute], TrieScorer[Any, Any, Any, Any]],
) -> Callable[[TrainedModel[Any], Compute], TargetGenerator]:
    """Make `Architecture.generator`, the generator of a model with the network of its scorer."""
    return imported_when_called("rescorer.tries.generation:new_generator", new_scorer)


def summaries_by(encode: Callable[[Sequence[bytes]], Tensor]) -> Summaries:
    """Make the summaries of an `Architecture` from a function of phrases, which needs no gradients."""
    return torch.inference_mode()(lambda phrases: encode(phrases).float().cpu().numpy())


class WordTables(Generic[Source, State, Carried, Inputs]):
    """A `Recurrent` with `inputs` looked up by a subclass; a network does the rest."""

    def __init__(
        self, network: Recurrent[Source, State, Carried, Inputs], output: nn.Linear
    ) -> None:
        self.output, self._network = output, network
        self.start, self.carry, self.step = network.start, network.carry, network.step

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Source:
        """See `Recurrent.read`."""
        return self._network.read(ids, lens)

    def factors(self, state: State, inputs: Inputs, source: Source) -> Tensor:
        """See `Recurrent.factors`."""
        return self._network.factors(state, inputs, source)


def with_no_word(vectors: Tensor) -> Tensor:
    """Append a row of zeros to word vectors, *Shape:* (n_words, r) -> (n_words + 1, r): row -1 is NO_WORD."""
    return torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
