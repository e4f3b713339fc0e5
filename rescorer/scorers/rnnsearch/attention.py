"""Additive attention (Bahdanau et al. 2015, appendix A.1.2) without padding.

A decoder state looks at the places of its own source: e_j = v tanh(q + u_j), weights = softmax(e),
context = sum_j weight_j h_j, where q = W_a s and u_j = U_a h_j. On a CPU it is a compiled loop that stays in
the cache and keeps only the weights for its gradient.

Notation: n states, P places of all sources, a width of q, w width of an annotation h_j.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from moses_bridge.base.compiled.kept_code import njit
from rescorer.layers.float_bits import exp, tanh

# On a GPU this many numbers of states x places x width at a time: half a gigabyte.
DEVICE_NUMBERS_AT_ONCE = 2**27


class Places(NamedTuple):
    """The places that states look at.

    Attributes:
        annotations: h, source by source, *Shape:* (P, w).
        keys: u, *Shape:* (P, a).
        firsts: the first place of each source, *Shape:* (n_sources,).
        lens: places of each source, at least 1, *Shape:* (n_sources,).
        by_annotations: sum of all states' gradients, see `new_places`; else empty, *Shape:* (P, w).
        by_keys: likewise, *Shape:* (P, a).
    """

    annotations: Tensor
    keys: Tensor
    firsts: Tensor
    lens: Tensor
    by_annotations: Tensor
    by_keys: Tensor


def new_places(annotations: Tensor, keys: Tensor, firsts: Tensor, lens: Tensor) -> Places:
    """Places whose gradients are summed in one buffer if gradients are needed; see `Places`.

    Autograd would allocate a gradient of all places for each step, mostly zeros in a long text.
    """
    sums = annotations[:0], keys[:0]
    if torch.is_grad_enabled() and annotations.requires_grad and is_compiled(annotations):
        sums = torch.zeros_like(annotations), torch.zeros_like(keys)
        annotations, keys = _Gathered.apply(annotations, keys, *sums)  # type: ignore[no-untyped-call]
    return Places(annotations, keys, firsts, lens, *sums)


class _Gathered(torch.autograd.Function):
    """Annotations and keys for all steps; their gradient is what the steps add to the sums."""

    @staticmethod
    def forward(
        ctx: Any, annotations: Tensor, keys: Tensor, by_annotations: Tensor, by_keys: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same annotations and keys."""
        ctx.sums = by_annotations, by_keys
        ctx.set_materialize_grads(False)
        return annotations.view_as(annotations), keys.view_as(keys)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        """The sums plus gradients from elsewhere; autograd calls this after every step's backward."""
        both = zip(ctx.sums, outputs, strict=True)
        return *(total if part is None else total + part for total, part in both), None, None


def attend(query: Tensor, energy: Tensor, places: Places, rows: Tensor) -> Tensor:
    """The context of each state, (n, w), from its query q, (n, a), energy v, (a,), and its source, (n,)."""
    needs_sums = torch.is_grad_enabled() and not len(places.by_keys)
    if needs_sums or not is_compiled(query):
        return attend_plainly(query, energy, places, rows)
    context: Tensor = _Attention.apply(query, energy, *places, rows)  # type: ignore[no-untyped-call]
    return context


def is_compiled(tensor: Tensor) -> bool:
    """Whether the compiled loops accept tensors of this kind."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32


def attend_plainly(query: Tensor, energy: Tensor, places: Places, rows: Tensor) -> Tensor:
    """See `attend`; uses PyTorch's operations, padding shorter sources."""
    longest = int(places.lens.max())
    at_once = max(1, DEVICE_NUMBERS_AT_ONCE // (longest * places.annotations.shape[1]))
    parts = zip(torch.split(query, at_once), torch.split(rows, at_once), strict=True)
    return torch.cat([_padded(*part, energy, places, longest) for part in parts])


def _padded(query: Tensor, rows: Tensor, energy: Tensor, places: Places, longest: int) -> Tensor:
    weights, which = attention_weights(query, energy, places, rows, longest)
    return (weights.unsqueeze(1) @ places.annotations[which]).squeeze(1)


def attention_weights(
    query: Tensor, energy: Tensor, places: Places, rows: Tensor, longest: int
) -> tuple[Tensor, Tensor]:
    """Weights of each state on the places of its source, 0 after their end, and places, (n, longest)."""
    steps = torch.arange(longest, device=query.device)
    inside = steps < places.lens[rows].unsqueeze(1)
    which = places.firsts[rows].unsqueeze(1) + steps * inside
    energies = torch.tanh(query.unsqueeze(1) + places.keys[which]) @ energy
    return torch.softmax(energies.masked_fill(~inside, -torch.inf), dim=1), which


class _Attention(torch.autograd.Function):
    """The compiled loops as one operation of PyTorch."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        energy: Tensor,
        annotations: Tensor,
        keys: Tensor,
        firsts: Tensor,
        lens: Tensor,
        by_annotations: Tensor,
        by_keys: Tensor,
        rows: Tensor,
    ) -> Tensor:
        """See `attend`."""
        # Of each state the first place and the number of places, (n,), and where its weights begin, (n + 1,).
        own_firsts, own_lens = (tensor.numpy()[rows.numpy()] for tensor in (firsts, lens))
        run = own_firsts, own_lens, np.append(0, np.cumsum(own_lens))
        weights = torch.empty(int(run[2][-1]))
        context = torch.zeros(len(query), annotations.shape[1])
        tensors = (query, energy, annotations, keys, weights, context)
        _contexts(*(tensor.detach().contiguous().numpy() for tensor in tensors), *run)
        ctx.save_for_backward(query, energy, annotations, keys, weights)
        ctx.run, ctx.sums = run, (by_annotations, by_keys)
        return context

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients by query and energy; those by annotations and keys go to the sums."""
        query, energy, annotations, keys, weights = ctx.saved_tensors
        by_query, by_energy = torch.zeros_like(query), torch.zeros_like(energy)
        tensors = (query, energy, annotations, keys, weights, outputs[0])
        sums = (by_query, by_energy, *ctx.sums)
        arrays = [tensor.detach().contiguous().numpy() for tensor in (*tensors, *sums)]
        _add_gradients(*arrays[: len(tensors)], tuple(arrays[len(tensors) :]), ctx.run)
        return by_query, by_energy, *[None] * 7


@njit(nogil=True, fastmath=True, error_model="numpy")
def _contexts(
    query: Any, energy: Any, annotations: Any, keys: Any, weights: Any, context: Any,
    firsts: Any, lens: Any, offsets: Any,
) -> None:  # fmt: skip
    for row in range(len(query)):
        first, offset = firsts[row], offsets[row]
        highest = np.float32(-np.inf)
        for j in range(lens[row]):
            total = np.float32(0.0)
            for k in range(len(energy)):
                total += energy[k] * tanh(query[row, k] + keys[first + j, k])
            weights[offset + j] = total
            highest = max(highest, total)
        sum_of_all = np.float32(0.0)
        for j in range(lens[row]):
            weights[offset + j] = exp(weights[offset + j] - highest)
            sum_of_all += weights[offset + j]
        for j in range(lens[row]):
            weights[offset + j] /= sum_of_all
            weight = weights[offset + j]
            for k in range(context.shape[1]):
                context[row, k] += weight * annotations[first + j, k]


@njit(nogil=True, fastmath=True, error_model="numpy")
def _add_gradients(
    query: Any, energy: Any, annotations: Any, keys: Any, weights: Any, by_context: Any,
    gradients: Any, run: Any,
) -> None:  # fmt: skip
    """Add the gradients of all states to those by query, energy, annotations and keys."""
    by_query, by_energy, by_annotations, by_keys = gradients
    firsts, lens, offsets = run
    by_weights = np.empty(lens.max() if len(lens) else 0, np.float32)
    for row in range(len(query)):
        first, offset = firsts[row], offsets[row]
        mean = np.float32(0.0)
        for j in range(lens[row]):
            weight, total = weights[offset + j], np.float32(0.0)
            for k in range(by_context.shape[1]):
                total += by_context[row, k] * annotations[first + j, k]
                by_annotations[first + j, k] += weight * by_context[row, k]
            by_weights[j] = total
            mean += weight * total
        for j in range(lens[row]):
            by_logit = weights[offset + j] * (by_weights[j] - mean)
            for k in range(len(energy)):
                value = tanh(query[row, k] + keys[first + j, k])
                by_energy[k] += by_logit * value
                inner = by_logit * energy[k] * (np.float32(1.0) - value * value)
                by_query[row, k] += inner
                by_keys[first + j, k] += inner
