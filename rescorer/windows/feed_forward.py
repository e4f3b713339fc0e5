"""A feed-forward network of one or two hidden layers over windows of words, shared by CSLM and NNJM.

The first layer is a sum over places; each word has its own share at each place.

Notation: n windows of k words, m different words at a place, r width of a word's vector, d1 and d2 widths of
the hidden layers (d: the first layer alone), V predicted words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding

from moses_bridge.base.compiled.kept_code import njit
from rescorer.layers.float_bits import narrowed, widened
from rescorer.layers.products import n_narrow_rows, narrow_rows, numpy_numbers

# Cho et al. (2014), section 4.1.2.
INITIAL_RANGE = 0.01


def first_layer_tables(vectors: Tensor, weight: Tensor) -> list[Tensor]:
    """Tabulate a first layer's share of each word at each place of the window, *Shape:* k x (words, d).

    Devlin et al. (2014), section 2.4: the layer is a sum over places, so a look-up replaces its product.
    Vectors have the *Shape:* (words, r), the layer's weight (d, k r): it reads those of a window side by side.
    """
    with torch.inference_mode():
        return [vectors @ block.T for block in torch.split(weight, vectors.shape[1], dim=1)]


def first_layer(vectors: Tensor, layer: nn.Linear, windows: Tensor) -> Tensor:
    """The layer's output for windows, differentiable by vectors, weight and bias.

    On a CPU a word that several windows have at the same place is multiplied once, and sums of looked-up rows
    replace the other products: 4,096 windows of running text have some 1,000 words at a place.

    Args:
        vectors: word vectors, *Shape:* (words, r).
        layer: reads the vectors of a window side by side.
        windows: numbers of words, *Shape:* (n, k).

    Returns:
        In the type of the products (autocast's, if enabled), *Shape:* (n, d).

    Raises:
        IndexError: a word has no vector.
        RuntimeError: the layer reads another number of words.
    """
    if windows.device.type != "cpu":
        result: Tensor = layer(embedding(windows, vectors).flatten(1))
        return result
    if windows.shape[1] * vectors.shape[1] != layer.in_features:
        raise RuntimeError(
            f"windows of {windows.shape[1]} words of {vectors.shape[1]} numbers, "
            f"but the layer reads {layer.in_features} numbers"
        )
    narrow = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if narrow else vectors.dtype
    result = _SumOverPlaces.apply(vectors, layer.weight, layer.bias, windows, dtype)  # type: ignore[no-untyped-call]
    return result


class _Place(NamedTuple):
    """A place of the windows, and its part of the products of all places and of the layer's weight."""

    words: Tensor  # the different words at this place, (m,)
    which: NDArray[np.int64]  # index into `words` for each window, (n,)
    rows: slice  # of the products, (m or more,)
    columns: slice  # of the weight


class _SumOverPlaces(torch.autograd.Function):
    """See `first_layer`; the products have their own type, sums that of the vectors."""

    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, weight: Tensor, bias: Tensor, windows: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """The sums, *Shape:* (n, d)."""
        ctx.places = places = list(_places(windows, vectors, dtype))
        rows = [narrow_rows(embedding(place.words, vectors), dtype) for place in places]
        weight = weight.to(dtype)
        ctx.save_for_backward(vectors, weight, *rows)
        shares = weight.new_empty(places[-1].rows.stop, len(weight))
        for place, of_words in zip(places, rows, strict=True):
            torch.mm(of_words, weight[:, place.columns].T, out=shares[place.rows])
        result: Tensor = shares.new_empty(len(windows), len(weight))
        which = np.stack([place.which + place.rows.start for place in places])
        _add_shares(numpy_numbers(shares), which, bias.numpy(), numpy_numbers(result))
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients by vectors, weight and bias."""
        vectors, weight, *rows = ctx.saved_tensors
        gradient = gradient.contiguous()
        by_vectors = torch.zeros_like(vectors)
        by_weight = vectors.new_empty(weight.shape)
        sums = vectors.new_empty(len(weight)).numpy()
        for place, of_words in zip(ctx.places, rows, strict=True):
            by_shares = gradient.new_empty(len(of_words), len(weight))
            _sum_by_word(numpy_numbers(gradient), place.which, sums, numpy_numbers(by_shares))
            by_weight[:, place.columns] = by_shares.T @ of_words
            by_words = by_shares @ weight[:, place.columns]
            by_vectors.index_add_(0, place.words, by_words[: len(place.words)].to(by_vectors.dtype))
        return by_vectors, by_weight, gradient.sum(0, dtype=by_vectors.dtype), None, None


def _places(windows: Tensor, vectors: Tensor, dtype: torch.dtype) -> Iterator[_Place]:
    numbers, (n_vectors, width) = windows.numpy(), vectors.shape
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < n_vectors:
        raise IndexError(f"a word has no vector: there are {n_vectors}")
    start = 0
    for place, column in enumerate(numbers.T):
        number_of = np.zeros(n_vectors, np.int64)
        number_of[column] = 1
        words = np.flatnonzero(number_of)
        number_of[words] = np.arange(len(words))
        end = start + n_narrow_rows(len(words), dtype)
        columns = slice(place * width, (place + 1) * width)
        yield _Place(torch.from_numpy(words), number_of[column], slice(start, end), columns)
        start = end


@njit(error_model="numpy")
def _add_shares(
    shares: NDArray[Any], which: NDArray[np.int64], bias: NDArray[Any], out: NDArray[Any]
) -> None:
    """Add the bias (d,) and rows `which` (k, n) of `shares` (all m, d): the shares of a window's words."""
    sums = np.empty_like(bias)
    for row in range(len(out)):
        sums[:] = bias
        for place in range(len(which)):
            share = shares[which[place, row]]
            for unit in range(len(sums)):
                sums[unit] += widened(share[unit])
        total = out[row]
        for unit in range(len(sums)):
            total[unit] = narrowed(sums[unit], total[unit])


@njit(error_model="numpy")
def _sum_by_word(
    gradient: NDArray[Any], which: NDArray[np.int64], sums: NDArray[Any], out: NDArray[Any]
) -> None:
    """Sum the gradients (n, d) of each word's windows, (m or more, d); each word occurs; `sums` is room."""
    ends = np.zeros(len(out) + 1, np.int64)
    for word in which:
        ends[word + 1] += 1
    ends[:] = np.cumsum(ends)
    windows = np.empty(len(which), np.int64)
    for window in range(len(which)):
        windows[ends[which[window]]] = window
        ends[which[window]] += 1
    start = 0
    for word in range(len(out)):
        sums[:] = 0
        for position in range(start, ends[word]):
            values = gradient[windows[position]]
            for unit in range(len(sums)):
                sums[unit] += widened(values[unit])
        start = ends[word]
        total = out[word]
        for unit in range(len(sums)):
            total[unit] = narrowed(sums[unit], total[unit])


class LayerWidths(NamedTuple):
    """Widths of the layers below the softmax: r of a word's vector, d1 and d2 of the hidden layers.

    A d2 of 0 omits the second one, and the softmax reads the first one.
    """

    embedding: int
    first: int
    second: int


class FeedForward(nn.Module):
    """p(word | window) = softmax(W ReLU(H2 ReLU(H1 [e(w_1) … e(w_k)]))), exactly normalised.

    Windows have k = `window_words` of `n_input_words` different words; V is `n_words`.
    """

    def __init__(
        self, n_input_words: int, window_words: int, widths: LayerWidths, n_words: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_input_words, widths.embedding)
        self.first = nn.Linear(window_words * widths.embedding, widths.first)
        self.second = nn.Linear(widths.first, widths.second) if widths.second else None
        self.output = nn.Linear(widths.second or widths.first, n_words)
        self.initialise()

    def initialise(self) -> None:
        """Draw the output weights from U(-0.01, 0.01), those of hidden layers scaled by their fan-in.

        Cho et al. (2014) draw all weights from U(-0.01, 0.01); in the narrow default layers here the signal
        would vanish, hence the scaling of the hidden layers.
        """
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.output.weight, -INITIAL_RANGE, INITIAL_RANGE)
        nn.init.zeros_(self.output.bias)
        for layer in filter(None, (self.first, self.second)):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def hidden(self, windows: Tensor) -> Tensor:
        """The last hidden layer, from numbers of words: *Shape:* (n, k) -> (n, d2), or (n, d1) without a
        second one.
        """
        return above_first(first_layer(self.embedding.weight, self.first, windows), self.second)


class FirstLayerLookup:
    """A trained network with its first layer as a sum of looked-up rows; a `Windowed`."""

    def __init__(self, network: FeedForward) -> None:
        self.output = network.output
        self._bias = network.first.bias.detach()
        self._second = network.second
        self._tables = first_layer_tables(network.embedding.weight, network.first.weight)

    def hidden(self, windows: Tensor) -> Tensor:
        """See `FeedForward.hidden`."""
        first = self._bias + sum(
            table[windows[:, place]] for place, table in enumerate(self._tables)
        )
        return above_first(first, self._second)


def above_first(first: Tensor, second: nn.Linear | None) -> Tensor:
    """The last hidden layer from the first one's sums, *Shape:* (n, d1) -> (n, d2) or (n, d1)."""
    return torch.relu(first) if second is None else torch.relu(second(torch.relu(first)))
