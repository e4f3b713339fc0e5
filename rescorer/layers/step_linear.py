"""Linear layers used at every step of a recurrent network, made fast for training.

PyTorch's gradient of such a layer's weight is one product and one sum a step. Here the rows of all steps are
kept, and the gradient is one product at the end; products may use a narrow type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rescorer.layers.products import narrow_rows


@dataclass
class _Steps:
    """Of each step: the rows, *Shape:* (n, in), and the gradients by their products, (n, out)."""

    rows: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)


class _Shared(torch.autograd.Function):
    """The weight of a layer for all steps of an update; its gradient is one product."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, steps: _Steps, dtype: torch.dtype) -> Tensor:
        """The weight in a type."""
        ctx.steps = steps
        ctx.set_materialize_grads(False)
        return weight.view_as(weight) if dtype == weight.dtype else weight.to(dtype)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor | None) -> tuple[Tensor | None, None, None]:
        """Multiply all steps at once; autograd calls this after the last step."""
        steps: _Steps = ctx.steps
        if not steps.rows:
            return None, None, None
        rows, gradients = _all_rows(steps.rows), _all_rows(steps.gradients)
        return (gradients.T @ rows).float(), None, None


def _all_rows(parts: list[Tensor]) -> Tensor:
    """The rows of all steps, followed by the zero rows of `narrow_rows`."""
    rows = parts[0] if len(parts) == 1 else torch.cat(parts)
    return narrow_rows(rows, rows.dtype)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, shared: Tensor, bias: Tensor | None, steps: _Steps
    ) -> Tensor:
        """The output as float32, *Shape:* (n, in) -> (n, out)."""
        narrow = narrow_rows(rows.detach(), shared.dtype)
        ctx.save_for_backward(narrow, shared)
        ctx.steps, ctx.n_rows, ctx.has_bias = steps, len(rows), bias is not None
        product = linear(narrow, shared)[: len(rows)]
        return product.float() if bias is None else product + bias

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients by the rows and the bias; the inputs of the weight's gradient are kept."""
        narrow, shared = ctx.saved_tensors
        gradients = narrow_rows(outputs[0], shared.dtype)
        ctx.steps.rows.append(narrow)
        ctx.steps.gradients.append(gradients)
        by_bias = outputs[0].sum(0) if ctx.has_bias else None
        return (gradients @ shared)[: ctx.n_rows].float(), None, by_bias, None


class StepLinear(nn.Linear):
    """A linear layer; within `shared_steps` its weight is prepared once for all steps, in `shared_type`."""

    shared_type: torch.dtype | None = None
    _shared: tuple[Tensor, _Steps] | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output, *Shape:* (n, in_features) -> (n, out_features)."""
        if self.shared_type is None:
            return super().forward(rows)
        if self._shared is None:
            self._shared = self._share(self.shared_type)
        shared, steps = self._shared
        output: Tensor = _Product.apply(rows, shared, self.bias, steps)  # type: ignore[no-untyped-call]
        return output

    def _share(self, dtype: torch.dtype) -> tuple[Tensor, _Steps]:
        steps = _Steps()
        shared: Tensor = _Shared.apply(self.weight, steps, dtype)  # type: ignore[no-untyped-call]
        return shared, steps

    def use(self, shared_type: torch.dtype | None) -> None:
        """Share the weight among the steps from now on, with products of a type; None stops sharing."""
        self.shared_type, self._shared = shared_type, None


@contextlib.contextmanager
def shared_steps(network: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Let the steps share the weights of a network's `StepLinear` layers; sums of products are float32."""
    layers = [layer for layer in network.modules() if isinstance(layer, StepLinear)]
    try:
        for layer in layers:
            layer.use(dtype)
        yield
    finally:
        for layer in layers:
            layer.use(None)
