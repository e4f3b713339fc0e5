"""Log of the softmax's denominator on a GPU, in one Triton kernel: no logit is written to memory.

Logits of 15,000 words are written and read again several times by PyTorch's operations, which takes longer than
their product. Here a program has some rows and some thousand words, whose exponentials it sums while the
products are in registers (Milakov and Gimelshein 2018, online normalizer calculation for softmax).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# With these a thread keeps all its numbers in registers (ptxas, sm_80).
ROWS, WORDS, WIDTH, WARPS = 64, 128, 16, 8
# Of a program: enough programs for a GPU's processors where there are few rows.
WORDS_OF_PROGRAM = 1024
# Three products of TF32 numbers, almost as exact as one in float32, and on tensor cores.
FLOAT32_PRODUCTS = "tf32x3"


def fused_log_sum_exp(factors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The result of `log_sum_exp.log_sum_exp`, which has the same arguments, without gradients."""
    (n_rows, width), n_words = factors.shape, len(weight)
    if weight.shape[1] != width or len(bias) != n_words:
        raise ValueError(f"{[*factors.shape]} by {[*weight.shape]}, with {len(bias)} biases")
    n_parts = triton.cdiv(n_words, WORDS_OF_PROGRAM)
    found = factors.new_empty(n_rows, n_parts)
    if n_rows:
        tensors = (factors.contiguous(), weight.contiguous(), bias.contiguous(), found)
        grid, sizes = (triton.cdiv(n_rows, ROWS), n_parts), (n_rows, n_words, width, n_parts)
        _kernel[grid](*tensors, *sizes, num_warps=WARPS)
    return torch.logsumexp(found, dim=1)


def _part_sums(  # type: ignore[no-untyped-def]  # Triton takes no annotations but its own
    factors, weight, bias, found, n_rows, n_words, width: tl.constexpr, n_parts
):
    """Write the log-sum-exp of some words for each of some rows, (n_rows, n_parts)."""
    part = tl.program_id(1)
    rows = tl.program_id(0) * _ROWS + tl.arange(0, _ROWS)
    is_row = rows < n_rows
    highest = tl.full((_ROWS,), float("-inf"), tl.float32)
    sums = tl.zeros((_ROWS,), tl.float32)
    first = part * _WORDS_OF_PROGRAM
    for start in range(first, tl.minimum(first + _WORDS_OF_PROGRAM, n_words), _WORDS):
        words = start + tl.arange(0, _WORDS)
        is_word = words < n_words
        logits = tl.zeros((_ROWS, _WORDS), tl.float32)
        for begin in range(0, width, _WIDTH):
            units = begin + tl.arange(0, _WIDTH)
            one = tl.load(
                factors + rows[:, None].to(tl.int64) * width + units[None, :],
                mask=is_row[:, None] & (units < width)[None, :],
                other=0.0,
            )
            other = tl.load(
                weight + words[None, :].to(tl.int64) * width + units[:, None],
                mask=is_word[None, :] & (units < width)[:, None],
                other=0.0,
            )
            logits = tl.dot(one.to(other.dtype), other, logits, input_precision=_FLOAT32_PRODUCTS)
        # As PyTorch's products, and those of a word's own term in `output_layer`.
        logits = logits.to(weight.dtype.element_ty).to(tl.float32)
        logits += tl.load(bias + words, mask=is_word, other=0.0)[None, :]
        logits = tl.where(is_word[None, :], logits, float("-inf"))
        higher = tl.maximum(highest, tl.max(logits, axis=1))
        sums = sums * tl.exp(highest - higher) + tl.sum(tl.exp(logits - higher[:, None]), axis=1)
        highest = higher
    tl.store(found + rows.to(tl.int64) * n_parts + part, highest + tl.log(sums), mask=is_row)


# A kernel knows constants of this kind alone.
_ROWS, _WORDS, _WIDTH = tl.constexpr(ROWS), tl.constexpr(WORDS), tl.constexpr(WIDTH)
_WORDS_OF_PROGRAM = tl.constexpr(WORDS_OF_PROGRAM)
_FLOAT32_PRODUCTS = tl.constexpr(FLOAT32_PRODUCTS)
_kernel: Any = triton.jit(_part_sums)
