"""The layers below the softmax for rows (source place, previous words, word): look-ups and sums.

The first layer is a sum over the places of a window (Devlin et al. 2014, section 2.4). The share of the words
around a source place is summed once for each place; that of a previous word is a row of a table. A second
layer is a product over all rows that begin differently.

Notation: n rows, w numbers of a row before its word, d1 width of the first layer, d width of the last one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from moses_bridge.base.compiled.inner import expanded
from moses_bridge.base.compiled.kept_code import njit
from rescorer.layers.float_bits import narrowed, widened
from rescorer.layers.products import ROWS_STEP, numpy_numbers
from rescorer.windows.feed_forward import FeedForward, first_layer_tables
from rescorer.windows.ngrams import first_of_each

# First layers of this many rows stay in the processor's second cache until they are multiplied.
ROWS_AT_ONCE = 2048


class History(NamedTuple):
    """The previous words of a window, its first n_words; their numbers are 0 to n_numbers - 1.

    The frequencies of the numbers, *Shape:* (n_numbers,), weigh them in the mean that is an unknown word.
    """

    n_words: int
    n_numbers: int
    frequencies: NDArray[np.float64]

    @property
    def open_id(self) -> int:
        """The number of an unknown previous word."""
        return self.n_numbers


class HiddenLayers:
    """The layers below the softmax of a network on its device, which reads this history.

    The type is that of tables, second layer and results; sums are float32.
    """

    def __init__(self, network: FeedForward, history: History, dtype: torch.dtype) -> None:
        self.dtype = dtype
        width = history.n_words * network.embedding.embedding_dim
        with torch.inference_mode():
            tables = first_layer_tables(
                network.embedding.weight[: history.n_numbers], network.first.weight[:, :width]
            )
            self.tables = torch.stack([_with_mean(table, history) for table in tables]).to(dtype)
            self.second = None if network.second is None else _in_type(network.second, dtype)

    @torch.inference_mode()
    def __call__(self, rows: NDArray[np.int32], bases: Tensor) -> tuple[Tensor, NDArray[np.int32]]:
        """The last hidden layer of each distinct beginning.

        Args:
            rows: source place (if there are several bases), previous words and the word, all of them valid
                numbers, *Shape:* (n, w + 1).
            bases: the result of `bases_of` for the source places, *Shape:* (n_places, d1).

        Returns:
            *Shape:* (n_distinct, d), and the index into it for each row, *Shape:* (n,).
        """
        firsts, which = first_of_each(rows, rows.shape[1] - 1)
        compute = self._on_cpu if bases.device.type == "cpu" else self._on_device
        return compute(rows, firsts, bases), which

    def _on_cpu(self, rows: NDArray[np.int32], firsts: NDArray[np.int32], bases: Tensor) -> Tensor:
        tables = numpy_numbers(self.tables)
        if self.second is None:
            first = torch.empty(len(firsts), self.tables.shape[2], dtype=self.dtype)
            _sum_first_layer(rows, firsts, bases.numpy(), tables, numpy_numbers(first))
            return first
        result = torch.empty(len(firsts), len(self.second[1]), dtype=self.dtype)
        size = min(ROWS_AT_ONCE, _filled(len(firsts)))
        first = torch.empty(size, self.tables.shape[2], dtype=self.dtype)
        for start in range(0, len(firsts), ROWS_AT_ONCE):
            part = firsts[start : start + ROWS_AT_ONCE]
            _sum_first_layer(rows, part, bases.numpy(), tables, numpy_numbers(first))
            # Few shapes, as for `narrow_rows`. Rows after the part are ignored.
            result[start : start + len(part)] = self._last(first[: _filled(len(part))])[: len(part)]
        return result

    def _on_device(
        self, rows: NDArray[np.int32], firsts: NDArray[np.int32], bases: Tensor
    ) -> Tensor:
        chosen = torch.from_numpy(rows[firsts]).long().to(bases.device)
        n_words = len(self.tables)
        before = chosen[:, -1 - n_words : -1]
        first = bases[chosen[:, 0]] if chosen.shape[1] > n_words + 1 else bases
        for place, table in enumerate(self.tables):
            first = first + table[before[:, place]].float()
        return self._last(torch.relu(first).to(self.dtype))

    def _last(self, first: Tensor) -> Tensor:
        return first if self.second is None else linear(first, *self.second).relu_()


@torch.inference_mode()
def bases_of(network: FeedForward, around: NDArray[np.int32]) -> Tensor:
    """The first layer's share of the words around source places, including its bias, *Shape:* (n_places, d1).

    `around` are numbers of the last words of windows, *Shape:* (n_places, n_around).
    """
    first = network.first
    vectors = network.embedding(torch.from_numpy(around).long().to(first.weight.device)).flatten(1)
    return linear(vectors, first.weight[:, first.in_features - vectors.shape[1] :], first.bias)


def _with_mean(table: Tensor, history: History) -> Tensor:
    """A table with the mean, weighted by the words' frequencies, as one more row."""
    shares = torch.from_numpy(history.frequencies / history.frequencies.sum()).to(table)
    return torch.cat([table, (shares @ table)[None]])


def _in_type(layer: nn.Linear, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return layer.weight.detach().to(dtype), layer.bias.detach().to(dtype)


def _filled(n_rows: int) -> int:
    return -(-n_rows // ROWS_STEP) * ROWS_STEP


@njit(nogil=True, fastmath=True, error_model="numpy")
def _sum_first_layer(rows: Any, chosen: Any, bases: Any, tables: Any, out: Any) -> None:
    """Rectified sums of bases (n_places, d1) and tables (n_words, numbers, d1), (m or more, d1), for m rows."""
    n_words = len(tables)
    # Previous words follow the source place, if there is one.
    begin = rows.shape[1] - 1 - n_words
    room = np.empty(bases.shape[1], np.float32)
    for i in range(len(chosen)):
        row = rows[chosen[i], begin:]
        sums = bases[rows[chosen[i], 0] if begin else 0]
        word = 0
        # Three at a time, the last of them on the way out: a pass over the sums costs as much as
        # reading a row.
        while word + 3 < n_words:
            one, two, three = row[word], row[word + 1], row[word + 2]
            _add_three(
                sums, tables[word, one], tables[word + 1, two], tables[word + 2, three], room
            )
            sums = room
            word += 3
        if word + 3 == n_words:
            one, two, three = row[word], row[word + 1], row[word + 2]
            _rectify_three(
                sums, tables[word, one], tables[word + 1, two], tables[word + 2, three], out[i]
            )
            continue
        while word < n_words:
            _add_one(sums, tables[word, row[word]], room)
            sums = room
            word += 1
        _rectify(sums, out[i])


@expanded
def _add_three(sums: Any, one: Any, two: Any, three: Any, out: Any) -> None:
    for k in range(len(sums)):
        out[k] = sums[k] + (widened(one[k]) + widened(two[k]) + widened(three[k]))


@expanded
def _add_one(sums: Any, one: Any, out: Any) -> None:
    for k in range(len(sums)):
        out[k] = sums[k] + widened(one[k])


@expanded
def _rectify_three(sums: Any, one: Any, two: Any, three: Any, out: Any) -> None:
    for k in range(len(sums)):
        total = sums[k] + (widened(one[k]) + widened(two[k]) + widened(three[k]))
        out[k] = narrowed(max(total, np.float32(0)), out[k])


@expanded
def _rectify(sums: Any, out: Any) -> None:
    for k in range(len(sums)):
        out[k] = narrowed(max(sums[k], np.float32(0)), out[k])
