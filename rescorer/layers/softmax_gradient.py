"""Gradient of weighted log-probabilities under an output layer whose softmax denominators are known.

Training finds denominators and gradient in one pass over the logits of a block (`layers.loss`). Where values
come first, as in a training on whole translations, the denominators are known when the gradient is wanted. Then
a tile of logits needs no other one, and all its three products find it in the processor's cache.

Notation: n rows, w width of a row, V words of the layer, k predictions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.compiled.kept_code import njit_by_numbers
from rescorer.layers.float_bits import exp, narrowed, widened
from rescorer.layers.log_sum_exp import WORDS_AT_ONCE
from rescorer.layers.narrow_rows import Numbers, narrow_rows, numpy_numbers
from rescorer.layers.predicted import Predicted

# With WORDS_AT_ONCE a tile of 1 MB in bfloat16: the sums of products are added to seldom.
ROWS_AT_ONCE = 1024


class Gradients(NamedTuple):
    """Of the weighted sum of log p.

    Attributes:
        rows: by what is multiplied with the layer's weight, *Shape:* (n, w).
        weight: *Shape:* (V, w).
        bias: *Shape:* (V,).
    """

    rows: Tensor
    weight: Tensor
    bias: Tensor


class _Rows(NamedTuple):
    """Some rows and what they predict.

    Attributes:
        log_z: *Shape:* (n,).
        weights: of all predictions of each row together, *Shape:* (n,).
        firsts: the first prediction of each row, and k at the end, *Shape:* (n + 1,).
        words: predicted, by rising rows, *Shape:* (k,).
        word_weights: of each prediction, *Shape:* (k,).
    """

    log_z: Tensor
    weights: Tensor
    firsts: Tensor
    words: Tensor
    word_weights: Tensor


@torch.no_grad()
def softmax_gradients(
    output: nn.Linear, rows: Tensor, log_z: Tensor, predicted: Predicted, product_type: torch.dtype
) -> Gradients:
    """Gradient of the sum over predictions of weight x log softmax(rows W^T + b)[row, word].

    Args:
        output: the layer.
        rows: *Shape:* (n, w).
        log_z: natural log of each row's denominator, *Shape:* (n,).
        predicted: the words.
        product_type: of the products; sums are in the layer's own type.
    """
    found = Gradients(*map(torch.zeros_like, (rows, output.weight, output.bias)))
    weight, weights = output.weight.to(product_type), torch.from_numpy(predicted.weights).to(rows)
    row_weights = torch.zeros_like(log_z)
    row_weights.index_add_(0, torch.from_numpy(predicted.rows).to(rows.device), weights)
    words = torch.from_numpy(predicted.words).to(rows.device)
    firsts = np.searchsorted(predicted.rows, np.arange(len(rows) + 1))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = slice(start, min(start + ROWS_AT_ONCE, len(rows)))
        own = slice(firsts[some.start], firsts[some.stop])
        narrow = narrow_rows(rows[some], product_type)
        part = _Rows(
            log_z[some],
            row_weights[some],
            torch.from_numpy(firsts[some.start : some.stop + 1] - own.start),
            words[own],
            weights[own],
        )
        for first in range(0, len(weight), WORDS_AT_ONCE):
            tile = slice(first, first + WORDS_AT_ONCE)
            products = narrow @ weight[tile].T
            found.bias[tile] += _by_logits(products, output.bias[tile], part, first)
            found.rows[some] += (products @ weight[tile])[: len(part.log_z)]
            found.weight[tile] += products.T @ narrow
    return found


def _by_logits(products: Tensor, bias: Tensor, rows: _Rows, first: int) -> Tensor:
    """Turn a tile of products into the gradient by its logits.

    Args:
        products: logits without bias, *Shape:* (n or more, words of the tile); becomes the gradient.
        bias: *Shape:* (words of the tile,).
        rows: of the tile.
        first: word of the tile.

    Returns:
        The sum of the gradient over the rows, *Shape:* (words of the tile,).
    """
    if bias.dtype == torch.float32 and bias.device.type == "cpu":
        sums = np.zeros(len(bias), np.float32)
        given = (tensor.numpy() for tensor in (bias, *rows))
        _compiled_by_logits(numpy_numbers(products), *given, first, sums)
        return torch.from_numpy(sums)
    n_rows, n_words = len(rows.log_z), len(bias)
    probs = torch.exp(products[:n_rows].to(bias.dtype) + bias - rows.log_z.unsqueeze(1))
    probs *= -rows.weights.unsqueeze(1)
    places = torch.arange(n_rows).repeat_interleave(torch.diff(rows.firsts)).to(rows.words.device)
    inside = (rows.words >= first) & (rows.words < first + n_words)
    where = places[inside], rows.words[inside] - first
    probs.index_put_(where, rows.word_weights[inside], accumulate=True)
    products[:n_rows] = probs
    return probs.sum(0)


@njit_by_numbers(nogil=True, fastmath=True, error_model="numpy")
def _compiled_by_logits(
    products: Numbers,
    bias: NDArray[np.float32],
    log_z: NDArray[np.float32],
    row_weights: NDArray[np.float32],
    firsts: NDArray[np.int64],
    words: NDArray[np.int64],
    word_weights: NDArray[np.float32],
    first: int,
    sums: NDArray[np.float32],
) -> None:
    """As `_by_logits`; the sums are added to, and the products may be the bits of bfloat16."""
    n_words = products.shape[1]
    gradient = np.empty(n_words, np.float32)
    for row in range(len(log_z)):
        shift, scale = log_z[row], -row_weights[row]
        for word in range(n_words):
            gradient[word] = scale * exp(widened(products[row, word]) + bias[word] - shift)
        for prediction in range(firsts[row], firsts[row + 1]):
            word = words[prediction] - first
            if 0 <= word < n_words:
                gradient[word] += word_weights[prediction]
        for word in range(n_words):
            sums[word] += gradient[word]
            products[row, word] = narrowed(gradient[word], products[row, word])
