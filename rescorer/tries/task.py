"""Training of networks over tries: losses, each distinct prefix computed once, and the task of the loop.

Sources share a tree of prefixes, and each source has a tree of targets; a loss equals the sum over pairs.
Batches come from phrase pairs, sentence pairs or text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.array_file import parts
from rescorer.contract.training import Batches
from rescorer.contract.vocabulary import Vocabulary
from rescorer.layers.predicted import Predicted, UpdateLoss, WordSampler, output_loss
from rescorer.layers.step_linear import shared_steps
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch, with_dropout
from rescorer.training.text import SENTENCES_AT_ONCE
from rescorer.tries.prefix_tree import PrefixTree, build_prefix_tree
from rescorer.tries.recurrent import (
    NO_WORD,
    Carried,
    Inputs,
    Recurrent,
    Source,
    State,
    network_states,
    to_device,
)


def pairs_loss(
    network: Recurrent[Source, State, Carried, Inputs],
    data: EncodedPairs,
    rows: NDArray[np.int64],
    product_type: torch.dtype,
) -> Tensor:
    """Weighted sum of -log p(target | source) of the pairs `rows` (n,), natural log, *Shape:* ().

    `product_type` is that of the output layer's products.
    """
    factors, predicted = predictions(network, data, rows)
    return output_loss(network.output, factors, predicted, product_type)


def predictions(
    network: Recurrent[Source, State, Carried, Inputs], data: EncodedPairs, rows: NDArray[np.int64]
) -> tuple[Tensor, Predicted]:
    """Predictions of the words of the pairs `rows` (n,), over distinct prefixes.

    Returns:
        The input of the output layer, one row a prefix, *Shape:* (n_nodes, w), and the words that follow the
            prefixes, </s> included.
    """
    tree, factors = prefix_factors(network, data, rows)
    return factors, _children(tree, data.weights[rows])


def prefix_factors(
    network: Recurrent[Source, State, Carried, Inputs], data: EncodedPairs, rows: NDArray[np.int64]
) -> tuple[PrefixTree, Tensor]:
    """The distinct target prefixes of some pairs, source by source, and their factors; see `predictions`.

    Returns:
        The tree, a group a source, and the input of the output layer, the roots first, then level by level,
            *Shape:* (n_nodes, w).
    """
    sources, groups = np.unique(data.groups[rows], return_inverse=True)
    source = network.read(data.sources[sources], data.source_lens[sources])
    tree = build_prefix_tree(data.targets[rows], data.target_lens[rows], groups, len(sources))
    return tree, _factors(network, source, tree)


def _factors(
    network: Recurrent[Source, State, Carried, Inputs], source: Source, tree: PrefixTree
) -> Tensor:
    """Factors of every prefix, the roots first, then level by level: *Shape:* (n_nodes, w)."""
    # Words are looked up once for all levels: each look-up has a gradient as large as the whole embedding.
    weight = network.output.weight
    roots = np.arange(tree.n_groups)
    parents = [roots, *(level.parents for level in tree.levels)]
    sources = [roots]
    for level in tree.levels:
        sources.append(sources[-1][level.parents])
    words = np.concatenate([np.full(len(roots), NO_WORD), tree.words])
    groups = to_device(np.concatenate(sources), weight)
    inputs = network.inputs(to_device(words, weight), source, groups)
    states = network_states(network, network.start(source), parents, inputs, source)
    return network.factors(states, inputs, source)


def _children(tree: PrefixTree, weights: NDArray[np.float64]) -> Predicted:
    nodes, words, values = [], [], []
    offset = 0
    for depth in range(len(tree.levels) + 1):
        ending = tree.ending(depth, weights)
        ends = np.flatnonzero(ending)
        nodes.append(offset + ends)
        words.append(np.full(len(ends), Vocabulary.end_id))
        values.append(ending[ends])
        if depth < len(tree.levels):
            level = tree.levels[depth]
            nodes.append(offset + level.parents)
            words.append(level.words.astype(np.int64))
            values.append(tree.through(depth + 1, weights))
        offset += len(ending)
    all_nodes = np.concatenate(nodes)
    order = np.argsort(all_nodes, kind="stable")
    return Predicted(all_nodes[order], np.concatenate(words)[order], np.concatenate(values)[order])


class Losses(NamedTuple):
    """Functions to weighted sums over pairs, natural log, *Shape:* ().

    Attributes:
        of_update: the loss an update minimises; the sum over the parts of a batch is that of the batch.
        of_held_out: the measure of how good the network is, for the given rows, *Shape:* (n,).
    """

    of_update: Callable[[EncodedPairs, SeededBatch], Tensor]
    of_held_out: Callable[[EncodedPairs, NDArray[np.int64]], Tensor]


class BatchSource(Protocol):
    """Data that come in batches of batch_size pairs or words; text is pairs of the same empty source."""

    n_held_out: int
    batch_size: int

    def batches(self, epoch: int) -> Batches[SeededBatch]:
        """The pairs of each update of an epoch."""

    def located(self, batch: SeededBatch) -> tuple[EncodedPairs, SeededBatch]:
        """Pairs in memory, and the batch with the numbers that it has among these."""

    def held_out(self) -> Iterator[tuple[EncodedPairs, NDArray[np.int64]]]:
        """The held-out pairs, as many at a time as are scored together, and their numbers."""


class TrieTask:
    """Batches of a source and their losses.

    With `whole_batches` the loss of a batch is more than the sum over its pairs, so that it is not cut.
    """

    def __init__(self, source: BatchSource, losses: Losses, whole_batches: bool = False) -> None:
        self.source, self.losses = source, losses
        self.n_held_out, self.batch_size = source.n_held_out, source.batch_size
        self._whole_batches = whole_batches

    def batches(self, epoch: int) -> Batches[SeededBatch]:
        """See `Task.batches`."""
        return self.source.batches(epoch)

    def parts(self, batch: SeededBatch, n_parts: int) -> list[SeededBatch]:
        """A batch in at most n_parts parts."""
        return [batch] if self._whole_batches else batch.parts(n_parts)

    def n_words(self, batch: SeededBatch) -> float:
        """The weight of the target words of a batch, </s> included."""
        data, found = self.source.located(batch)
        return data.n_words(found.rows)

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed weighted loss of the pairs of a batch, and the weight of their words."""
        data, found = self.source.located(batch)
        return self.losses.of_update(data, found), data.n_words(found.rows)

    def held_out_loss(self) -> float | None:
        """Nats per word, weighted as in training, </s> included; None if nothing is held out."""
        total = n_words = 0.0
        for data, rows in self.source.held_out():
            total += float(self.losses.of_held_out(data, rows))
            n_words += data.n_words(rows)
        return total / n_words if n_words else None


def recurrent_losses(
    network: Any,
    product_type: torch.dtype,
    sampler: WordSampler | None,
    alpha: float,
    dropout: float = 0.0,
    has_dropout: bool = False,
) -> Losses:
    """-log p(target | source) over distinct prefixes, that of an update over some words alone.

    Args:
        network: is trained; a `Recurrent`.
        product_type: type of the layers' products in updates.
        sampler: draws the words of an update; None takes all. See `rescorer.layers.predicted`.
        alpha: weight of log^2 Z in updates.
        dropout: share of what is multiplied with the output weight that updates leave out.
        has_dropout: whether the network itself leaves something out; a batch seeds what it draws.
    """
    update_loss = UpdateLoss(network.output, sampler, product_type, alpha)

    def of_update(data: EncodedPairs, batch: SeededBatch) -> Tensor:
        rng = np.random.default_rng(batch.seed)
        if has_dropout:
            torch.manual_seed(int(rng.integers(2**62)) + batch.part)
        with shared_steps(network, product_type):
            factors, predicted = predictions(network, data, batch.rows)
        factors = with_dropout(factors, dropout, rng, batch.part)
        others = data.targets[batch.others].ravel()
        return update_loss.of(factors, predicted, rng, others)

    return Losses(of_update, lambda data, rows: pairs_loss(network, data, rows, torch.float32))


def word_shares(source: BatchSource, rows: NDArray[np.int64], n_words: int) -> NDArray[np.float64]:
    """The share of each word in the target words of some pairs, including </s>, *Shape:* (n_words,)."""
    counts = np.zeros(n_words, np.int64)
    for first, end in parts(len(rows), SENTENCES_AT_ONCE):
        data, found = source.located(SeededBatch(rows[first:end], ()))
        targets = data.targets[found.rows]
        inside = np.arange(targets.shape[1]) <= data.target_lens[found.rows, None]
        counts += np.bincount(targets[inside], minlength=n_words)
    return np.asarray(counts / max(1, counts.sum()), np.float64)
