"""Natural log p(target | source) of phrase pairs, through which gradients flow into a recurrent network.

Each distinct prefix is computed once, as in `tries.loss`; there the gradient of a weighted sum is wanted, here
the values come first, since a training on whole translations weighs pairs by what their translations are worth.
When the weights are known, the gradient is that of the weighted sum, and pairs that weigh next to nothing, such
as those of hypotheses that no one would choose, are left out of it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.contract.architectures import PhraseValues
from rescorer.contract.batch import Batch
from rescorer.contract.distinct import distinct_phrases
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists
from rescorer.layers.log_sum_exp import log_sum_exp
from rescorer.layers.step_linear import shared_steps
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries.loss import pairs_loss, prefix_factors
from rescorer.tries.prefix_tree import PrefixTree
from rescorer.tries.recurrent import Carried, Inputs, Recurrent, Source, State, to_device

# Logits of this many prefixes and 15,000 words are 15 MB in float32.
PREFIXES_AT_ONCE = 256
# Weights below this share of the highest one are lost in the rounding of float32.
LEAST_WEIGHT = 1e-7


def phrase_values(model: TrainedModel[Any], pairs: Batch) -> PhraseValues:
    """Of a recurrent network; see `contract.Architecture`."""
    encoded = _encoded(model.shortlists, pairs)
    return lambda rows: log_probs(model.network, encoded, rows)


def _encoded(shortlists: Shortlists, pairs: Batch) -> EncodedPairs:
    source, target = shortlists.source_words, shortlists.target
    sources, groups = distinct_phrases(pairs.sources)
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


def log_probs(network: Any, data: EncodedPairs, rows: NDArray[np.int64]) -> Tensor:
    """Natural log p(target | source) of some pairs, </s> included.

    Args:
        network: predicts; a module that is a `Recurrent`.
        data: all pairs.
        rows: which of them, *Shape:* (n,).

    Returns:
        *Shape:* (n,).
    """
    values: Tensor = _LogProbs.apply(network, data, rows, *network.parameters())  # type: ignore[no-untyped-call]
    return values


class _LogProbs(torch.autograd.Function):
    """Values of pairs; their gradient by the parameters is computed when it is known how pairs are weighed."""

    @staticmethod
    def forward(
        ctx: Any, network: Any, data: EncodedPairs, rows: NDArray[np.int64], *parameters: Tensor
    ) -> Tensor:
        """The values, *Shape:* (n,)."""
        ctx.network, ctx.data, ctx.rows = network, data, rows
        return _values(network, data, rows)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the weighted sum of the values."""
        weights = outputs[0].double().cpu().numpy()
        least = LEAST_WEIGHT * np.abs(weights).max(initial=0)
        chosen = np.flatnonzero(np.abs(weights) > least)
        data = replace(ctx.data.part(ctx.rows[chosen]), weights=-weights[chosen])
        parameters = list(ctx.network.parameters())
        if not len(chosen):
            return None, None, None, *(None for _ in parameters)
        kind = parameters[0].dtype
        # Shared steps compute in float32.
        steps = shared_steps(ctx.network, kind) if kind == torch.float32 else nullcontext()
        with torch.enable_grad(), steps:
            loss = pairs_loss(ctx.network, data, np.arange(len(data)), kind)
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        return None, None, None, *gradients


@torch.no_grad()
def _values(
    network: Recurrent[Source, State, Carried, Inputs],
    data: EncodedPairs,
    rows: NDArray[np.int64],
) -> Tensor:
    """Of each pair, *Shape:* (n,)."""
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
    """Log of the softmax's denominator behind each prefix, *Shape:* (n_nodes,)."""
    if factors.dtype == torch.float32:
        return log_sum_exp(factors, output.weight, output.bias)
    parts = torch.split(factors, PREFIXES_AT_ONCE)
    return torch.cat([torch.logsumexp(output(part), 1) for part in parts])
