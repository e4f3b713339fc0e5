"""The loss of a recurrent network over a batch of phrase pairs, each distinct prefix computed once.

Sources share a tree of prefixes, and the targets of each source one of their own; the loss is the same
number as the sum over pairs.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.contract.vocabulary import Vocabulary
from rescorer.layers.predicted import Predicted, output_loss
from rescorer.training.pairs.encoded_pairs import EncodedPairs
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
    """Weighted sum of -log p(target | source), natural log, over distinct prefixes.

    Args:
        network: is trained.
        data: all pairs.
        rows: which of them, *Shape:* (n,).
        product_type: type of the output layer's products.

    Returns:
        *Shape:* ().
    """
    factors, predicted = predictions(network, data, rows)
    return output_loss(network.output, factors, predicted, product_type)


def predictions(
    network: Recurrent[Source, State, Carried, Inputs],
    data: EncodedPairs,
    rows: NDArray[np.int64],
) -> tuple[Tensor, Predicted]:
    """What predicts the words of some pairs, over distinct prefixes.

    Args:
        network: is trained.
        data: all pairs.
        rows: which of them, *Shape:* (n,).

    Returns:
        What is multiplied with the output weight, one row a prefix, *Shape:* (n_nodes, w), and what
        follows the prefixes, </s> included.
    """
    tree, factors = prefix_factors(network, data, rows)
    return factors, _children(tree, data.weights[rows])


def prefix_factors(
    network: Recurrent[Source, State, Carried, Inputs],
    data: EncodedPairs,
    rows: NDArray[np.int64],
) -> tuple[PrefixTree, Tensor]:
    """The distinct prefixes of the targets of some pairs, source by source, and what predicts from each.

    Args:
        network: is trained.
        data: all pairs.
        rows: which of them, *Shape:* (n,).

    Returns:
        The tree, a group a source, and what is multiplied with the output weight, the roots first, then
        level by level, *Shape:* (n_nodes, w).
    """
    sources, groups = np.unique(data.groups[rows], return_inverse=True)
    source = network.read(data.sources[sources], data.source_lens[sources])
    tree = build_prefix_tree(data.targets[rows], data.target_lens[rows], groups, len(sources))
    return tree, _factors(network, source, tree)


def _factors(
    network: Recurrent[Source, State, Carried, Inputs], source: Source, tree: PrefixTree
) -> Tensor:
    """Factors of every prefix, the roots first, then level by level: *Shape:* (n_nodes, w).

    Words are looked up, and factors computed, once for all levels: each look-up has a gradient as large
    as the whole embedding.
    """
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
