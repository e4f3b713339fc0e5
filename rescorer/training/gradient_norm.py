"""The norm of all gradients together, and its limit."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

# As in torch.nn.utils.clip_grad_norm_.
EPSILON = 1e-6


def clip_gradients(weights: Iterable[nn.Parameter], limit: float) -> None:
    """Scale the gradients of some weights so that their norm is at most a limit.

    The gradients are those that torch.nn.utils.clip_grad_norm_ leaves, which multiplies shorter ones by 1: a
    pass over memory that large embeddings feel.

    Args:
        weights: with or without gradients.
        limit: of the norm.
    """
    learned = [weight for weight in weights if weight.grad is not None]
    if not learned:
        return
    if learned[0].device.type != "cpu":
        # There PyTorch has one operation for all of them, and does not wait for the norm.
        nn.utils.clip_grad_norm_(learned, limit)
        return
    gradients = [weight.grad for weight in learned if weight.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([*map(torch.linalg.vector_norm, gradients)]))
    scale = limit / (norm + EPSILON)
    if not scale >= 1:
        for gradient in gradients:
            gradient *= scale
