"""Linear layers used at every step of a recurrent network, made quick for training.

PyTorch's gradient of such a layer's weight is one product and one sum a step. Here the rows of all steps
are kept, and the gradient is one product at the end; the products may be in a narrow type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rescorer.layers.narrow_rows import narrow_rows


@dataclass
class _Steps:
    """What the gradient of a weight is made of, one pair of tensors a step.

    Attributes:
        rows: what was multiplied with the weight, *Shape:* (n, in) each.
        gradients: by the products, *Shape:* (n, out) each.
    """

    rows: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)


class _Shared(torch.autograd.Function):
    """The weight of a layer for all steps of an update; its gradient is one product."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, steps: _Steps, dtype: torch.dtype) -> Tensor:
        """The weight in a type."""
        ctx.steps = steps
        ctx.set_materialize_grads(False)
        return weight.detach().to(dtype, copy=True)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor | None) -> tuple[Tensor | None, None, None]:
        """Products of all steps at once; autograd comes here when every step has been there."""
        steps: _Steps = ctx.steps
        if not steps.rows:
            return None, None, None
        rows, gradients = torch.cat(steps.rows), torch.cat(steps.gradients)
        rows, gradients = (narrow_rows(part, part.dtype) for part in (rows, gradients))
        return (gradients.T @ rows).float(), None, None


class _Product(torch.autograd.Function):
    """The product of the rows of one step."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, shared: Tensor, steps: _Steps) -> Tensor:
        """The product as float32, *Shape:* (n, in) -> (n, out)."""
        narrow = narrow_rows(rows.detach(), shared.dtype)
        ctx.save_for_backward(narrow, shared)
        ctx.steps, ctx.n_rows = steps, len(rows)
        return linear(narrow, shared)[: len(rows)].float()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None, None]:
        """The gradient by the rows; what the weight's needs is kept."""
        narrow, shared = ctx.saved_tensors
        gradients = narrow_rows(outputs[0], shared.dtype)
        ctx.steps.rows.append(narrow)
        ctx.steps.gradients.append(gradients)
        return (gradients @ shared)[: ctx.n_rows].float(), None, None


class StepLinear(nn.Linear):
    """A linear layer; within `shared_steps` its weight is made ready once for all steps."""

    _shared: tuple[Tensor, _Steps] | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output, *Shape:* (n, in_features) -> (n, out_features)."""
        if self._shared is None:
            return super().forward(rows)
        product: Tensor = _Product.apply(rows, *self._shared)  # type: ignore[no-untyped-call]
        return product if self.bias is None else product + self.bias

    def share(self, dtype: torch.dtype) -> None:
        """Make the weight ready for products in a type."""
        steps = _Steps()
        shared: Tensor = _Shared.apply(self.weight, steps, dtype)  # type: ignore[no-untyped-call]
        self._shared = shared, steps

    def release(self) -> None:
        """Forget what `share` made."""
        self._shared = None


@contextlib.contextmanager
def shared_steps(network: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Compute with the `StepLinear` layers of a network in the way quick for training.

    Args:
        network: is trained.
        dtype: of the products; sums are float32.
    """
    layers = [layer for layer in network.modules() if isinstance(layer, StepLinear)]
    try:
        for layer in layers:
            layer.share(dtype)
        yield
    finally:
        for layer in layers:
            layer.release()
