"""The first layer over windows of words: a sum over places, in which each word has a share of its own at each.

Notation: n windows of k words, r width of a word's vector, d width of the layer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding


def first_layer_tables(vectors: Tensor, weight: Tensor) -> list[Tensor]:
    """A first layer's share of each word at each place of the window, *Shape:* k x (words, d).

    Devlin et al. (2014), section 2.4: the layer is a sum over places, so a look-up replaces its product.

    Args:
        vectors: of the words, *Shape:* (words, r).
        weight: of the layer, which reads the vectors of a window side by side, *Shape:* (d, k r).
    """
    with torch.inference_mode():
        return [vectors @ block.T for block in torch.split(weight, vectors.shape[1], dim=1)]


def first_layer(vectors: Tensor, layer: nn.Linear, windows: Tensor) -> Tensor:
    """The layer's output for windows, of which gradients by vectors, weight and bias are known.

    On a CPU a word that several windows have at the same place is multiplied once, and sums of looked-up rows
    take the place of the other products: 2,048 windows of running text have some 700 words at a place.
    Products in bfloat16 are so fast that the sums would take what is saved, so they are made of whole windows.

    Args:
        vectors: of the words, *Shape:* (words, r).
        layer: reads the vectors of a window side by side.
        windows: numbers of words, *Shape:* (n, k).

    Returns:
        *Shape:* (n, d).

    Raises:
        IndexError: a word has no vector.
        RuntimeError: the layer reads another number of words.
    """
    if windows.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        result: Tensor = layer(embedding(windows, vectors).flatten(1))
        return result
    if windows.shape[1] * vectors.shape[1] != layer.in_features:
        raise RuntimeError(
            f"windows of {windows.shape[1]} words of {vectors.shape[1]} numbers, "
            f"but the layer reads {layer.in_features} numbers"
        )
    result = _SumOverPlaces.apply(vectors, layer.weight, layer.bias, windows)  # type: ignore[no-untyped-call]
    return result


class _Place(NamedTuple):
    """A place of the windows.

    Attributes:
        words: the different ones there, *Shape:* (m,).
        which: of these, by window, *Shape:* (n,).
        columns: of the layer's weight.
    """

    words: Tensor
    which: NDArray[np.int64]
    columns: slice


class _SumOverPlaces(torch.autograd.Function):
    """See `first_layer`."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, bias: Tensor, windows: Tensor) -> Tensor:
        """The sums, *Shape:* (n, d)."""
        ctx.places = _places(windows, vectors.shape[1])
        ctx.save_for_backward(vectors, weight)
        result = bias.repeat(len(windows), 1)
        for place in ctx.places:
            shares = embedding(place.words, vectors) @ weight[:, place.columns].T
            _add_looked_up(shares.numpy(), place.which, result.numpy())
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients by vectors, weight and bias."""
        vectors, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        by_vectors, by_weight = torch.zeros_like(vectors), torch.empty_like(weight)
        for place in ctx.places:
            by_shares = gradient.new_zeros(len(place.words), len(weight))
            _add_to_words(gradient.numpy(), place.which, by_shares.numpy())
            by_weight[:, place.columns] = by_shares.T @ embedding(place.words, vectors)
            by_vectors.index_add_(0, place.words, by_shares @ weight[:, place.columns])
        return by_vectors, by_weight, gradient.sum(0), None


def _places(windows: Tensor, width: int) -> list[_Place]:
    columns = windows.T.numpy()
    found = (np.unique(column, return_inverse=True) for column in columns)
    return [
        _Place(torch.from_numpy(words), which, slice(number * width, (number + 1) * width))
        for number, (words, which) in enumerate(found)
    ]


@numba.njit(cache=True, error_model="numpy")
def _add_looked_up(shares: NDArray[Any], which: NDArray[np.int64], sums: NDArray[Any]) -> None:
    """Add to each window's sum its word's share, *Shape:* (m, d), (n,), (n, d)."""
    for row in range(len(which)):
        share, total = shares[which[row]], sums[row]
        for unit in range(len(total)):
            total[unit] += share[unit]


@numba.njit(cache=True, error_model="numpy")
def _add_to_words(gradient: NDArray[Any], which: NDArray[np.int64], sums: NDArray[Any]) -> None:
    """Add to each word's sum the gradients of its windows, *Shape:* (n, d), (n,), (m, d)."""
    for row in range(len(which)):
        values, total = gradient[row], sums[which[row]]
        for unit in range(len(total)):
            total[unit] += values[unit]
