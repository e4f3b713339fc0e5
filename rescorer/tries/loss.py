"""The loss of the encoder-decoder over a batch of phrase pairs, each distinct prefix computed once.

Sources share a tree of prefixes, and the targets of each source one of their own; the loss is the same
number as the sum over pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.scorers.encdec.network import NO_WORD, DecoderContext, EncoderDecoder
from rescorer.softmax.loss import summed_loss
from rescorer.training.phrase_pairs import PhrasePairs
from rescorer.tries.prefix_tree import Level, PrefixTree, build_prefix_tree
from rescorer.units import GatedUnit
from rescorer.vocabulary import Vocabulary


@dataclass(frozen=True)
class EncodedPairs:
    """Phrase pairs as word ids.

    Attributes:
        sources: ids with </s> behind the words, *Shape:* (n_sources, source_len + 1).
        source_lens: *Shape:* (n_sources,).
        targets: *Shape:* (n_pairs, target_len + 1).
        target_lens: *Shape:* (n_pairs,).
        groups: the source of each pair, *Shape:* (n_pairs,).
        weights: *Shape:* (n_pairs,).
    """

    sources: NDArray[np.int32]
    source_lens: NDArray[np.int64]
    targets: NDArray[np.int32]
    target_lens: NDArray[np.int64]
    groups: NDArray[np.int64]
    weights: NDArray[np.float64]


def encode_pairs(pairs: PhrasePairs, source: Vocabulary, target: Vocabulary) -> EncodedPairs:
    """Phrase pairs as word ids."""
    return EncodedPairs(
        *source.encode_phrases(pairs.sources),
        *target.encode_phrases(pairs.targets),
        pairs.groups,
        pairs.weights,
    )


def pairs_loss(
    network: EncoderDecoder,
    data: EncodedPairs,
    rows: NDArray[np.int64],
    product_type: torch.dtype,
    alpha: float = 0.0,
) -> Tensor:
    """Weighted sum of -log p(target | source), natural log, over distinct prefixes.

    Args:
        network: the encoder-decoder.
        data: all pairs.
        rows: which of them, *Shape:* (n,).
        product_type: type of the output layer's products.
        alpha: weight of log^2 Z, which is added for each word.

    Returns:
        *Shape:* ().
    """
    device = network.output_bias.device
    sources, groups = np.unique(data.groups[rows], return_inverse=True)
    source_tree = build_prefix_tree(data.sources[sources], data.source_lens[sources] + 1)
    context = network.decoder_start(_tree_summaries(network, source_tree))
    tree = build_prefix_tree(data.targets[rows], data.target_lens[rows], groups, len(sources))
    readouts = _tree_readouts(network, context, tree)
    children = _tree_children(tree, data.weights[rows])
    child_rows, child_words, child_weights = (
        torch.from_numpy(array).to(device) for array in children
    )
    return summed_loss(
        readouts,
        network.output_weight,
        network.output_bias,
        child_rows,
        child_words,
        child_weights.to(readouts.dtype),
        product_type,
        alpha,
    )


def _tree_summaries(network: EncoderDecoder, tree: PrefixTree) -> Tensor:
    """Summary c of each source, whose words and </s> are a row of the tree, *Shape:* (n, d)."""
    device = network.output_bias.device
    inputs = network.source_inputs(_words_of(tree.levels).to(device))
    states = _tree_states(network.encoder, network.source_start(1), tree.levels, inputs)
    return network.context(states[torch.from_numpy(tree.last_nodes).to(device)])


def _tree_readouts(network: EncoderDecoder, context: DecoderContext, tree: PrefixTree) -> Tensor:
    """G_l s of every prefix, the roots first, then level by level: *Shape:* (n_nodes, r)."""
    device = network.output_bias.device
    sources = [np.arange(tree.n_groups)]
    levels = [Level(np.full(tree.n_groups, NO_WORD, np.int32), sources[0]), *tree.levels]
    for level in tree.levels:
        sources.append(sources[-1][level.parents])
    rows = torch.from_numpy(np.concatenate(sources)).to(device)
    inputs = network.target_inputs(_words_of(levels).to(device), context, rows)
    states = _tree_states(network.decoder, context.hidden, levels, inputs.unit)
    return network.readout(states, inputs.readout)


def _words_of(levels: Sequence[Level]) -> Tensor:
    """The words of all nodes, level by level, *Shape:* (n_nodes,)."""
    return torch.from_numpy(np.concatenate([level.words for level in levels])).long()


def _tree_states(unit: GatedUnit, start: Tensor, levels: Sequence[Level], inputs: Tensor) -> Tensor:
    """States of all nodes, level by level, *Shape:* (n_nodes, d).

    Args:
        unit: makes the steps.
        start: states before the first level, *Shape:* (n_roots, d).
        levels: the nodes.
        inputs: pre-activations of all nodes, *Shape:* (n_nodes, 3 d).
    """
    hidden, states = start, []
    for level, level_inputs in zip(levels, torch.split(inputs, [*map(len, levels)]), strict=True):
        parents = torch.from_numpy(level.parents).to(inputs.device)
        hidden = unit.step(hidden[parents], level_inputs)
        states.append(hidden)
    return torch.cat(states)


def _tree_children(
    tree: PrefixTree, weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Row of the prefix, word and weight of everything that follows a prefix, </s> included."""
    rows, words, values = [], [], []
    offset = 0
    for depth in range(len(tree.levels) + 1):
        ending = tree.ending(depth, weights)
        ends = np.flatnonzero(ending)
        rows.append(offset + ends)
        words.append(np.full(len(ends), Vocabulary.end_id))
        values.append(ending[ends])
        if depth < len(tree.levels):
            level = tree.levels[depth]
            rows.append(offset + level.parents)
            words.append(level.words.astype(np.int64))
            values.append(tree.through(depth + 1, weights))
        offset += len(ending)
    all_rows = np.concatenate(rows)
    order = np.argsort(all_rows, kind="stable")
    return all_rows[order], np.concatenate(words)[order], np.concatenate(values)[order]
