"""Levels of tries in tiles: a GPU repeats a few steps whose shapes are known.

Python needs longer to start the thirty operations of a step than a GPU needs for them. So a level's nodes are
cut into tiles of a few sizes, the last one filled up. A tile reads and writes tables that keep their places; on
a GPU it is captured once for each size as a CUDA graph, and replayed. The cut depends on the tree alone, so a
block has the same tiles, and the same bytes, in every run on a device.

Notation: a head is a node with children; n nodes of a level.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.errors import UserError
from moses_bridge.base.progress import print_note
from rescorer.contract.vocabulary import Vocabulary
from rescorer.layers.gated_levels import are_first_children
from rescorer.layers.output_layer import OutputLayer
from rescorer.tries.prefix_tree import PrefixTree
from rescorer.tries.recurrent import NO_WORD, Recurrent, like, to_device

# Rows of a tile. A block of 8,192 rows of a phrase table has one to five thousand nodes a level.
SIZES = (256, 512, 1024, 2048, 4096, 8192)
# Of the larger of two numbers: a captured step that is wrong differs by more.
TOLERANCE = 0.05
Kind = Literal["heads", "nodes"]


def tile_sizes(n_rows: int, sizes: Sequence[int] = SIZES) -> list[int]:
    """Sizes of tiles for a number of rows: only the last is filled up, by a quarter or to the smallest size.

    `sizes` are rising.
    """
    found, left = list[int](), n_rows
    while left > 0:
        larger = next((size for size in sizes if size >= left), sizes[-1])
        is_full = 4 * left >= 3 * larger or larger == sizes[0]
        found.append(larger if is_full else max(size for size in sizes if size <= left))
        left -= found[-1]
    return found


class _Tile(NamedTuple):
    """The heads or nodes of a tile, n_rows of them filled up to a size, in the level `depth`."""

    kind: Kind
    depth: int
    n_rows: int
    columns: NDArray[np.int64]  # see `_Levels._heads` and `_Levels._nodes`, (2 or 4, size)

    @property
    def size(self) -> int:
        """Rows with those filled up."""
        return int(self.columns.shape[1])


# Of all threads and networks: while a step is captured nothing else may be given to the GPU.
LOCK = threading.Lock()


class Tiles:
    """Log-probabilities of the words of whole tries under a network whose sources have one row each.

    Several threads may use it: one at a time gives a GPU its work, which takes turns in one stream, while
    others prepare theirs or wait for results.

    Args:
        network: a `Recurrent` whose source has one row a source in each field.
        layer: its output layer.
        sizes: rows of a tile, rising.
    """

    def __init__(
        self,
        network: Recurrent[Any, Any, Any, Any],
        layer: OutputLayer,
        sizes: Sequence[int] = SIZES,
    ) -> None:
        self.network, self.layer, self.sizes = network, layer, sizes
        # Of a tree: no level has more nodes. A block of a table has more rows than the size it is cut to.
        self.most_pairs = 2 * sizes[-1]
        self._stream = None
        if network.output.weight.device.type == "cuda":
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._stream.wait_stream(torch.cuda.current_stream())  # of the tables of words

    @cached_property
    def _levels(self) -> _Levels:
        return _Levels(self.network, self.layer, self.most_pairs, captures=self._stream is not None)

    @torch.inference_mode()
    def log_probs(
        self, tree: PrefixTree, sources: tuple[NDArray[np.int32], NDArray[np.int64]]
    ) -> list[NDArray[np.float64]]:
        """Natural log p of each level's nodes, the roots first, *Shape:* (2, n).

        The first row is that of the node's word given the words before (of roots: meaningless), the second that
        of </s> after the node's words.

        Args:
            tree: the targets of at most `most_pairs` pairs, a group for each source.
            sources: arguments of `Recurrent.read`.

        Raises:
            UserError: a captured step has other results than the step itself.
        """
        tiles = list(self._tiles(tree))
        with LOCK, self._turn():
            found = self._levels.run(tiles, self.network.read(*sources))
            on_host = torch.empty(found.shape, pin_memory=self._stream is not None)
            on_host.copy_(found, non_blocking=True)
            done = None if self._stream is None else self._stream.record_event()
        if done is not None:
            done.synchronize()
        of_levels: list[list[NDArray[np.float64]]] = [[] for _ in range(len(tree.levels) + 1)]
        of_nodes = [tile for tile in tiles if tile.kind == "nodes"]
        for tile, both in zip(of_nodes, torch.split(on_host, _sizes(of_nodes)), strict=True):
            values = both.view(2, tile.size)[:, : tile.n_rows]
            of_levels[tile.depth].append(values.double().numpy())
        return [np.concatenate(parts, axis=1) for parts in of_levels]

    def _turn(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _tiles(self, tree: PrefixTree) -> Iterator[_Tile]:
        """The heads of the level before and the nodes of each level, in the order of computation."""
        groups = roots = np.arange(tree.n_groups)
        no_words = np.full(tree.n_groups, NO_WORD)
        levels = [(roots, no_words), *((level.parents, level.words) for level in tree.levels)]
        for depth, (parents, words) in enumerate(levels):
            groups, is_first = groups[parents], are_first_children(parents)
            heads = parents[is_first]
            yield from self._cut("heads", depth, heads, np.arange(len(heads)))
            which = np.cumsum(is_first) - 1
            yield from self._cut("nodes", depth, which, np.arange(len(parents)), words, groups)

    def _cut(self, kind: Kind, depth: int, *columns: NDArray[Any]) -> Iterator[_Tile]:
        first = 0
        for size in tile_sizes(len(columns[0]), self.sizes):
            part = np.zeros((len(columns), size), np.int64)
            part[1] = self.most_pairs  # the row of the tables that nobody reads
            n_rows = min(size, len(columns[0]) - first)
            for row, column in zip(part, columns, strict=True):
                row[:n_rows] = column[first : first + n_rows]
            yield _Tile(kind, depth, n_rows, part)
            first += size


class _Levels:
    """The tables of a network, and its steps from level to level; see `Tiles`."""

    def __init__(
        self,
        network: Recurrent[Any, Any, Any, Any],
        layer: OutputLayer,
        n_rows: int,
        captures: bool,
    ) -> None:
        self.network, self.layer = network, layer
        source = _one_source(network)
        state, row = network.start(source), to_device(np.zeros(1, np.int64), network.output.weight)
        carried, inputs = network.carry(state), network.inputs(row, source, row)
        factors = network.factors(network.step(carried, inputs, source), inputs, source)
        predictions = factors, layer.log_z(factors)

        def table(fields: Sequence[Tensor]) -> list[Tensor]:
            return [field.new_zeros(n_rows + 1, *field.shape[1:]) for field in fields]

        self.source = like(source, table(source))
        self.state, self.carried = state, carried
        # Of the nodes of a level and of its heads: state, and what a step takes from it, then the prediction.
        self.nodes, self.heads = table((*state, *predictions)), table((*carried, *predictions))
        self.columns = row.new_zeros(2 * n_rows)  # four of a tile
        self.captures = captures
        self._pool = torch.cuda.graph_pool_handle() if captures else None
        self._graphs: dict[tuple[Kind, int], tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    def run(self, tiles: Sequence[_Tile], source: Any) -> Tensor:
        """The results of `_nodes` of all tiles of nodes, one after another."""
        for tables, fields in ((self.source, source), (self.nodes, self.network.start(source))):
            for table, field in zip(tables, fields, strict=False):
                table[: len(field)] = field
        flat = [tile.columns.ravel() for tile in tiles]
        columns = torch.split(to_device(np.concatenate(flat), self.columns), [*map(len, flat)])
        sizes = _sizes(tiles)
        results = self.nodes[-1].new_empty(sum(sizes))
        rooms = iter(torch.split(results, sizes))
        for tile, given in zip(tiles, columns, strict=True):
            self.columns[: len(given)].copy_(given)
            found = self._found(tile.kind, tile.size)
            if tile.kind == "nodes":
                next(rooms).copy_(found)
        return results

    def _found(self, kind: Kind, size: int) -> Tensor:
        compute = partial(self._heads if kind == "heads" else self._nodes, size)
        if self.captures and (kind, size) not in self._graphs:
            try:
                self._graphs[kind, size] = self._captured(compute)
            except RuntimeError as error:
                self.captures = False
                print_note(f"this GPU repeats no step of the network, so it is slower: {error}")
        if not self.captures:
            return compute()
        graph, found = self._graphs[kind, size]
        graph.replay()
        return found

    def _captured(self, compute: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """A step as a graph whose results have been compared with the step's own."""
        for _ in range(2):  # libraries choose and compile their kernels
            expected = compute().clone()
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        with torch.cuda.graph(graph, self._pool, stream, capture_error_mode="thread_local"):
            found = compute()
        graph.replay()
        if not torch.allclose(found, expected, TOLERANCE, TOLERANCE, equal_nan=True):
            raise UserError(
                "the GPU repeats a step of the network with other results than at first: "
                "score with --device cpu"
            )
        return graph, found

    def _column(self, number: int, size: int) -> Tensor:
        return self.columns[number * size : (number + 1) * size]

    def _heads(self, size: int) -> Tensor:
        """What steps take from heads, whose rows in the level and rows to write are the columns, (2, size).

        Returns the last field, so that it can be checked.
        """
        rows, places = self._column(0, size), self._column(1, size)
        *state, factors, log_z = (table.index_select(0, rows) for table in self.nodes)
        carried = self.network.carry(like(self.state, state))
        _write(self.heads, places, [*carried, factors, log_z])
        last: Tensor = carried[-1]
        return last

    def _nodes(self, size: int) -> Tensor:
        """Natural log p of each node's word and of </s> after it, one after the other, (2 size,).

        Columns are the head of each node, the rows to write, words and sources, (4, size).
        """
        heads, places, words, groups = (self._column(number, size) for number in range(4))
        *carried, factors, log_z = (table.index_select(0, heads) for table in self.heads)
        log_probs = self.layer.log_probs(factors, log_z, words)
        inputs = self.network.inputs(words, self.source, groups)
        state = self.network.step(like(self.carried, carried), inputs, self.source)
        factors = self.network.factors(state, inputs, self.source)
        log_z = self.layer.log_z(factors)
        ends = self.layer.log_probs(factors, log_z, torch.full_like(words, Vocabulary.end_id))
        _write(self.nodes, places, [*state, factors, log_z])
        return torch.cat([log_probs, ends])


def _sizes(tiles: Sequence[_Tile]) -> list[int]:
    """Numbers in the results of the tiles of nodes."""
    return [2 * tile.size for tile in tiles if tile.kind == "nodes"]


def _write(tables: Sequence[Tensor], places: Tensor, fields: Sequence[Tensor]) -> None:
    for table, field in zip(tables, fields, strict=True):
        table.index_copy_(0, places, field)


@torch.inference_mode()
def can_be_tiled(network: Recurrent[Any, Any, Any, Any]) -> bool:
    """Whether its source has one row a source in each field; one with an attention has a row a word."""
    return all(isinstance(field, Tensor) and len(field) == 1 for field in _one_source(network))


def _one_source(network: Recurrent[Any, Any, Any, Any]) -> Any:
    """A source of one unknown word."""
    words = np.array([[Vocabulary.unknown_id, Vocabulary.end_id]], np.int32)
    return network.read(words, np.ones(1, np.int64))
