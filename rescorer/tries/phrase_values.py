"""Natural log p(target | source) of phrase pairs, with gradients into a recurrent network.

Each distinct prefix is computed once, as in `tries.task`. A training on whole translations weighs pairs by
the value of their translations, so the values come first, without a graph. Once the weights are known, the
gradient is that of the weighted loss. Pairs of negligible weight, such as those of unlikely hypotheses, are
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.contract.architectures import PhraseValues
from rescorer.contract.batch import Batch
from rescorer.contract.numbered_phrases import distinct_phrases
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists
from rescorer.layers.compiled_gates import compile_gates
from rescorer.layers.output_layer import ExactOutputLayer
from rescorer.layers.products import with_same_weights
from rescorer.layers.step_linear import shared_steps
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries.prefix_tree import PrefixTree
from rescorer.tries.recurrent import to_device
from rescorer.tries.task import pairs_loss, prefix_factors

# Logits of this many prefixes and 15,000 words are 15 MB in float32.
PREFIXES_AT_ONCE = 256
# Pairs that together have at most this share of all weights are left out of a gradient: its error by that is
# not larger than that of its products, in float32 and in bfloat16.
LEAST_SHARE, NARROW_SHARE = 1e-6, 1e-2


def phrase_values(model: TrainedModel[Any], product_type: torch.dtype) -> PhraseValues:
    """Of a recurrent network; see `contract.Architecture`."""
    log_probs = log_probs_of(model.network, product_type)
    return lambda pairs: log_probs(_encoded(model.shortlists, pairs))


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


def log_probs_of(network: Any, product_type: torch.dtype) -> Callable[[EncodedPairs], Tensor]:
    """A function giving natural log p(target | source) of pairs, </s> included, by a `Recurrent`, (n,).

    Products have the given type; a network in float64 computes in it.
    """
    own_type = network.output.weight.dtype
    used = product_type if own_type == torch.float32 else own_type
    reader = with_same_weights(network)
    if own_type == torch.float32:
        compile_gates(reader)
    parameters = tuple(network.parameters())
    return lambda data: _LogProbs.apply(network, reader, data, used, *parameters)  # type: ignore[no-untyped-call]


class _LogProbs(torch.autograd.Function):
    """Values of pairs; their gradient by the parameters is computed once the weights of pairs are known."""

    @staticmethod
    def forward(
        ctx: Any,
        network: Any,
        reader: Any,
        data: EncodedPairs,
        product_type: torch.dtype,
        *parameters: Tensor,
    ) -> Tensor:
        """The values, *Shape:* (n,); `reader` is the network, prepared for computing without gradients."""
        with _steps_in(reader, product_type):
            tree, factors = prefix_factors(reader, data, np.arange(len(data)))
        pairs, prefixes, words = _steps(tree, data.targets)
        layer = ExactOutputLayer(network.output, product_type)
        places = to_device(prefixes, factors)
        if factors.dtype == torch.float32:
            log_z = layer.log_z(factors)
        else:
            tiles = torch.split(factors, PREFIXES_AT_ONCE)
            log_z = torch.cat([(part @ layer.weight.T + layer.bias).logsumexp(1) for part in tiles])
        log_z = log_z.index_select(0, places)
        found = layer.log_probs(factors.index_select(0, places), log_z, to_device(words, factors))
        ctx.network, ctx.data, ctx.product_type = network, data, product_type
        return found.new_zeros(len(data)).index_add(0, to_device(pairs, factors), found)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the weighted sum of the values."""
        weights = outputs[0].double().cpu().numpy()
        chosen = _chosen(np.abs(weights), ctx.product_type)
        parameters = tuple(ctx.network.parameters())
        if not chosen.any():
            return None, None, None, None, *(None for _ in parameters)
        weighed = replace(ctx.data, weights=-weights)  # a loss is minus the values
        with torch.enable_grad(), _steps_in(ctx.network, ctx.product_type):
            loss = pairs_loss(ctx.network, weighed, np.flatnonzero(chosen), ctx.product_type)
        return None, None, None, None, *torch.autograd.grad(loss, parameters, allow_unused=True)


def _steps_in(network: nn.Module, product_type: torch.dtype) -> AbstractContextManager[None]:
    """Steps with products of a type; shared ones have sums of float32."""
    return nullcontext() if product_type == torch.float64 else shared_steps(network, product_type)


def _chosen(sizes: NDArray[np.float64], product_type: torch.dtype) -> NDArray[np.bool_]:
    """Which pairs to learn from: all but the least ones with a negligible total weight, *Shape:* (n,)."""
    order = np.argsort(sizes, kind="stable")
    share = NARROW_SHARE if product_type == torch.bfloat16 else LEAST_SHARE
    is_chosen = np.empty(len(sizes), np.bool_)
    is_chosen[order] = np.cumsum(sizes[order]) > share * sizes.sum()
    return is_chosen


def _steps(tree: PrefixTree, targets: NDArray[np.int32]) -> tuple[NDArray[np.int64], ...]:
    """The pair, the prefix and the word of each prediction, *Shape:* (n_words,) each."""
    starts = tree.n_groups + np.cumsum([0, *tree.sizes])[:-1]
    prefixes = np.column_stack([tree.groups, tree.paths + starts])
    inside = np.arange(prefixes.shape[1]) <= tree.lens[:, None]
    words = targets[:, : prefixes.shape[1]][inside].astype(np.int64)
    return np.nonzero(inside)[0], prefixes[inside], words
