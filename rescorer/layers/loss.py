"""Exact softmax losses of the output layer and their gradients, without ever storing all logits.

Notation: n rows (network states), w width of a row, V words; a child is a word that follows a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from moses_bridge.base.blocks import map_in_order
from moses_bridge.base.compiled.inner import expanded
from moses_bridge.base.compiled.kept_code import njit
from rescorer.layers.float_bits import exp, highest, narrowed, widened
from rescorer.layers.products import Floats, Ints, Numbers, narrow_rows, numpy_numbers

# Logits of 256 rows and 15,000 words are 15 MB in float32: what each thread needs at a time.
ROWS_AT_ONCE = 256
# On a GPU half a gigabyte of float32 logits at a time.
DEVICE_LOGITS_AT_ONCE = 2**27


class Children(NamedTuple):
    """The words that follow some rows: the row of each, rising, its word and its weight, *Shape:* (k,) each."""

    rows: Tensor
    words: Tensor
    weights: Tensor


class _Block(NamedTuple):
    """Some rows, *Shape:* (n, w), the total weight of the children of each, (n,), and these children."""

    rows: Tensor
    row_weights: Tensor
    children: Children


class SummedLoss(torch.autograd.Function):
    """-sum over children of weight x (log softmax(rows W^T + b)[row, word] - alpha log^2 Z(row)).

    Z is the softmax's denominator; alpha > 0 draws it to 1, so that scoring can do without it (Devlin et al.
    2014, section 2.3).

    The gradient of a softmax loss is known as soon as the loss is, so both are computed block by block in one
    pass. With bfloat16 the three large products use that type; softmax and sums stay in float32. On a CPU
    each thread computes its own blocks, and blocks are summed in order: the result does not depend on the
    number of threads.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor,
        children: Children,
        product_type: torch.dtype,
        alpha: float,
    ) -> Tensor:
        """Compute the loss, *Shape:* (), and its gradients, kept in ctx.

        Rows, weight and bias have the *Shape:* (n, w), (V, w) and (V,). Products in torch.bfloat16 are faster
        than in torch.float32; alpha is the weight of log^2 Z.
        """
        gradients = [torch.zeros_like(tensor) for tensor in (rows, weight, bias)]
        layer = _Layer(weight.detach(), bias.detach(), product_type, alpha, wants_gradients=True)
        loss, start = rows.new_zeros(()), 0
        for of_block, by_rows, by_weight, by_bias in layer.results(rows.detach(), children):
            loss += of_block
            gradients[0][start : start + len(by_rows)] = by_rows
            gradients[1] += by_weight
            gradients[2] += by_bias
            start += len(by_rows)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients from the forward pass, scaled."""
        return (*(gradient * outputs[0] for gradient in ctx.saved_tensors), *[None] * 3)


def summed_loss(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor,
    children: Children,
    product_type: torch.dtype = torch.float32,
    alpha: float = 0.0,
) -> Tensor:
    """The loss of `SummedLoss`; natural log, summed.

    Raises:
        IndexError: a child's word or row does not exist. On a GPU PyTorch reports it, later.
    """
    if rows.device.type == "cpu":
        _check(children.words, len(weight))
        _check(children.rows, len(rows))
    if torch.is_grad_enabled():
        loss: Tensor = SummedLoss.apply(  # type: ignore[no-untyped-call]
            rows, weight, bias, children, product_type, alpha
        )
        return loss
    layer = _Layer(weight.detach(), bias.detach(), product_type, alpha, wants_gradients=False)
    results = layer.results(rows, children)
    return torch.stack([rows.new_zeros(()), *(result[0] for result in results)]).sum()


def _check(numbers: Tensor, n_allowed: int) -> None:
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < n_allowed:
        raise IndexError(f"{int(numbers.min())} to {int(numbers.max())} of {n_allowed}")


class _Layer:
    """The weights of the output layer, prepared for blocks; see `SummedLoss.forward` for the arguments."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        product_type: torch.dtype,
        alpha: float,
        wants_gradients: bool,
    ) -> None:
        self.is_compiled = weight.device.type == "cpu" and weight.dtype == torch.float32
        # A sample has another number of words each time: oneDNN would compile three kernels for each, 5 ms.
        self.weight = (
            narrow_rows(weight, product_type) if self.is_compiled else weight.to(product_type)
        )
        self.bias = bias
        self.alpha = alpha
        self.wants_gradients = wants_gradients

    def results(self, rows: Tensor, children: Children) -> Iterator[tuple[Tensor, ...]]:
        """Yield the loss of each block, (), and, if wanted, its gradients by rows, weight and bias."""
        blocks = self._blocks(rows, children)
        n_threads = torch.get_num_threads()
        if self.is_compiled and n_threads > 1 and len(blocks) > 1:
            return map_in_order(self._result, blocks, n_threads)
        return map(self._result, blocks)

    def _blocks(self, rows: Tensor, children: Children) -> list[_Block]:
        on_cpu = rows.device.type == "cpu"
        size = ROWS_AT_ONCE if on_cpu else max(1, DEVICE_LOGITS_AT_ONCE // len(self.weight))
        row_weights = torch.zeros(len(rows), dtype=rows.dtype, device=rows.device)
        row_weights.index_add_(0, children.rows, children.weights)
        starts = range(0, len(rows), size)
        later = torch.tensor(starts[1:], device=rows.device)
        bounds = torch.searchsorted(children.rows, later).tolist() if len(later) else []
        cuts = [0, *bounds, len(children.rows)]
        return [
            _Block(
                rows[start : start + size],
                row_weights[start : start + size],
                Children(
                    children.rows[first:last] - start,
                    children.words[first:last],
                    children.weights[first:last],
                ),
            )
            for start, first, last in zip(starts, cuts[:-1], cuts[1:], strict=True)
        ]

    @torch.no_grad()
    def _result(self, block: _Block) -> tuple[Tensor, ...]:
        n_rows, n_words = len(block.rows), len(self.bias)
        product_rows = narrow_rows(block.rows, self.weight.dtype)
        products = product_rows @ self.weight.T
        if self.is_compiled:
            loss, bias = self._compiled_gradients(block, products[:n_rows])
            products[n_rows:], products[:, n_words:] = 0, 0
            by_logits = products
        else:
            loss, by_logits = self._logit_gradients(block, products[:n_rows])
            bias = by_logits.sum(dim=0)
            by_logits = narrow_rows(by_logits, self.weight.dtype)
        if not self.wants_gradients:
            return (loss,)
        by_weight = (by_logits.T @ product_rows)[:n_words]
        return loss, (by_logits @ self.weight)[:n_rows], by_weight, bias

    def _logit_gradients(self, block: _Block, products: Tensor) -> tuple[Tensor, Tensor]:
        """Loss, and its derivative by the logits, *Shape:* (n, V)."""
        child_rows, child_words, weights = block.children
        where = child_rows, child_words
        logits = products.to(block.rows.dtype).add_(self.bias)
        maxima = logits.amax(dim=1, keepdim=True)
        logits -= maxima
        chosen = logits[where] @ weights
        by_logits = logits.exp_()
        sums = by_logits.sum(dim=1)
        log_z = sums.log() + maxima.squeeze(1)
        loss = sums.log() @ block.row_weights - chosen + self.alpha * (log_z**2 @ block.row_weights)
        by_logits *= (block.row_weights * (1 + 2 * self.alpha * log_z) / sums).unsqueeze(1)
        by_logits.index_put_(where, -weights, accumulate=True)
        return loss, by_logits

    def _compiled_gradients(self, block: _Block, products: Tensor) -> tuple[Tensor, Tensor]:
        """As `_logit_gradients`, written over the products: the loss, and the sum of each column."""
        firsts = torch.searchsorted(block.children.rows, torch.arange(len(block.rows) + 1))
        bias_gradient = np.zeros(len(self.bias), np.float32)
        loss = _gradients(
            numpy_numbers(products),
            self.bias.numpy(),
            block.row_weights.numpy(),
            np.float32(self.alpha),
            firsts.numpy(),
            block.children.words.numpy(),
            block.children.weights.numpy(),
            bias_gradient,
        )
        return torch.tensor(loss, dtype=torch.float32), torch.from_numpy(bias_gradient)


@expanded
def _row_gradient(
    logits: Any, row_weight: Any, alpha: Any, words: Any, weights: Any, first: int, last: int,
    bias_gradient: Any,
) -> Any:  # fmt: skip
    """Return the loss of a row, and replace its logits by the derivative of the loss."""
    maximum = highest(logits)
    loss = 0.0
    for child in range(first, last):
        loss -= weights[child] * (logits[words[child]] - maximum)
    exponentials = np.float32(0.0)
    for word in range(len(logits)):
        logits[word] = exp(logits[word] - maximum)
        exponentials += logits[word]
    log_z = maximum + np.log(exponentials)
    scale = row_weight * (np.float32(1.0) + np.float32(2.0) * alpha * log_z) / exponentials
    for word in range(len(logits)):
        logits[word] *= scale
    for child in range(first, last):
        logits[words[child]] -= weights[child]
    for word in range(len(logits)):
        bias_gradient[word] += logits[word]
    return loss + row_weight * (np.log(exponentials) + alpha * log_z * log_z)


@njit(nogil=True, fastmath=True, error_model="numpy")
def _gradients(
    products: Numbers,
    bias: Floats,
    row_weights: Floats,
    alpha: np.float32,
    firsts: Ints,
    words: Ints,
    weights: Floats,
    bias_gradient: Floats,
) -> float:
    """Return the loss of a block, and replace its products by the gradient, one row at a time in the cache.

    Columns after the last word are padding.
    """
    logits = np.empty(len(bias), np.float32)
    loss = 0.0
    for row in range(products.shape[0]):
        for word in range(len(logits)):
            logits[word] = widened(products[row, word]) + bias[word]
        first, last = firsts[row], firsts[row + 1]
        loss += _row_gradient(
            logits, row_weights[row], alpha, words, weights, first, last, bias_gradient
        )
        for word in range(len(logits)):
            products[row, word] = narrowed(logits[word], products[row, word])
    return loss
