"""Natural log p(target | source) of phrase pairs, through which gradients flow into a recurrent network.

Each distinct prefix is computed once, as in `tries.loss`; there the gradient of a weighted sum is wanted, here
that of every pair, since a training on whole translations weighs pairs by what their translations are worth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rescorer.contract.architectures import PhraseValues
from rescorer.contract.batch import Batch
from rescorer.contract.distinct import distinct
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries.loss import prefix_factors
from rescorer.tries.prefix_tree import PrefixTree
from rescorer.tries.recurrent import Carried, Inputs, Recurrent, Source, State, to_device

# Logits of this many prefixes and 15,000 words are 15 MB in float32.
PREFIXES_AT_ONCE = 256


def phrase_values(model: TrainedModel[Any], pairs: Batch) -> PhraseValues:
    """Of a recurrent network; see `contract.Architecture`."""
    encoded = _encoded(model.shortlists, pairs)
    return lambda rows: log_probs(model.network, encoded, rows)


def _encoded(shortlists: Shortlists, pairs: Batch) -> EncodedPairs:
    source, target = shortlists.source_words, shortlists.target
    sources, groups = distinct(pairs.sources)
    source_ids, source_lens = source.encode_phrases(sources)
    target_ids, target_lens = target.encode_phrases(pairs.targets)
    return EncodedPairs(
        sources=source_ids,
        source_lens=source_lens,
        targets=target_ids,
        target_lens=target_lens,
        groups=groups,
        weights=np.ones(len(pairs)),
    )


def log_probs(
    network: Recurrent[Source, State, Carried, Inputs],
    data: EncodedPairs,
    rows: NDArray[np.int64],
) -> Tensor:
    """Natural log p(target | source) of some pairs, </s> included.

    Args:
        network: predicts.
        data: all pairs.
        rows: which of them, *Shape:* (n,).

    Returns:
        *Shape:* (n,).
    """
    tree, factors = prefix_factors(network, data, rows)
    pairs, prefixes, words = (
        to_device(numbers, factors) for numbers in _steps(tree, data.targets[rows])
    )
    output = network.output
    vectors = output.weight.index_select(0, words)
    logits = (factors.index_select(0, prefixes) * vectors).sum(1) + output.bias[words]
    found = logits - _log_z(output, factors).index_select(0, prefixes)
    return found.new_zeros(len(rows)).index_add(0, pairs, found)


def _steps(tree: PrefixTree, targets: NDArray[np.int32]) -> tuple[NDArray[np.int64], ...]:
    """The pair, the prefix and the word of each prediction, *Shape:* (n_words,) each."""
    starts = tree.n_groups + np.cumsum([0, *tree.sizes])[:-1]
    prefixes = np.column_stack([tree.groups, tree.paths + starts])
    inside = np.arange(prefixes.shape[1]) <= tree.lens[:, None]
    words = targets[:, : prefixes.shape[1]][inside].astype(np.int64)
    return np.nonzero(inside)[0], prefixes[inside], words


def _log_z(output: nn.Linear, factors: Tensor) -> Tensor:
    """Log of the softmax's denominator behind each prefix, *Shape:* (n_nodes,).

    Logits are computed again for the gradient, so that those of one part alone are kept.
    """
    parts = torch.split(factors, PREFIXES_AT_ONCE)
    found = [checkpoint(_log_sum_exp, output, part, use_reentrant=False) for part in parts]
    return torch.cat(found)


def _log_sum_exp(output: nn.Linear, factors: Tensor) -> Tensor:
    return torch.logsumexp(output(factors), 1)
