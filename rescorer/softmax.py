"""The output layer: exact softmax losses and normalisers without ever keeping all logits.

Notation: n rows (network states), w width of a row, V words; a child is a word that follows a row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

ProductType = Literal["float32", "bfloat16"]
ROWS_AT_ONCE = 512
CPU_FEATURES = Path("/proc/cpuinfo")
BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")


class SummedLoss(torch.autograd.Function):
    """-sum over children of weight x log softmax(rows W^T + b)[row, word].

    The gradient of a softmax loss is known as soon as the loss is, so both are computed block by
    block in one pass, with one block of logits alive. With bfloat16 the two large products are done
    in that type; softmax and sums stay in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor,
        child_rows: Tensor,
        child_words: Tensor,
        child_weights: Tensor,
        product_type: torch.dtype,
    ) -> Tensor:
        """Compute the loss and its gradients.

        Args:
            ctx: keeps the gradients.
            rows: *Shape:* (n, w).
            weight: *Shape:* (V, w).
            bias: *Shape:* (V,).
            child_rows: the row of each child, rising, *Shape:* (n_children,).
            child_words: *Shape:* (n_children,).
            child_weights: *Shape:* (n_children,).
            product_type: torch.float32, or torch.bfloat16 for faster products.

        Returns:
            The loss, *Shape:* ().
        """
        gradients = [torch.zeros_like(tensor) for tensor in (rows, weight, bias)]
        row_gradient, weight_gradient, bias_gradient = gradients
        product_weight = weight.detach().to(product_type)
        totals = torch.zeros(len(rows), dtype=rows.dtype, device=rows.device)
        totals.index_add_(0, child_rows, child_weights)
        starts = torch.arange(0, len(rows), ROWS_AT_ONCE, device=rows.device)
        bounds = [*torch.searchsorted(child_rows, starts).tolist(), len(child_rows)]
        loss = rows.new_zeros(())
        for number, start in enumerate(range(0, len(rows), ROWS_AT_ONCE)):
            block = slice(start, start + ROWS_AT_ONCE)
            children = slice(bounds[number], bounds[number + 1])
            where = (child_rows[children] - start, child_words[children])
            product_rows = rows[block].detach().to(product_type)
            logits = (product_rows @ product_weight.T).to(rows.dtype).add_(bias.detach())
            logits -= logits.amax(dim=1, keepdim=True)
            chosen = logits[where] @ child_weights[children]
            slope = logits.exp_()
            sums = slope.sum(dim=1)
            loss += sums.log() @ totals[block] - chosen
            slope *= (totals[block] / sums).unsqueeze(1)
            slope.index_put_(where, -child_weights[children], accumulate=True)
            bias_gradient += slope.sum(dim=0)
            product_slope = slope.to(product_type)
            row_gradient[block] = (product_slope @ product_weight).to(rows.dtype)
            weight_gradient += (product_slope.T @ product_rows).to(rows.dtype)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients from the forward pass, scaled."""
        return (*(gradient * outputs[0] for gradient in ctx.saved_tensors), *[None] * 4)


def fast_product_type() -> ProductType:
    """bfloat16 where the processor has instructions for it, else float32."""
    features = CPU_FEATURES.read_text().split() if CPU_FEATURES.exists() else []
    native = any(name in features for name in BFLOAT16_INSTRUCTIONS)
    return "bfloat16" if native else "float32"


def summed_loss(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor,
    child_rows: Tensor,
    child_words: Tensor,
    child_weights: Tensor,
    product_type: torch.dtype = torch.float32,
) -> Tensor:
    """The loss of `SummedLoss`; natural log, summed."""
    loss: Tensor = SummedLoss.apply(  # type: ignore[no-untyped-call]
        rows, weight, bias, child_rows, child_words, child_weights, product_type
    )
    return loss
