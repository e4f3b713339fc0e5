"""A phrase table in memory: flat arrays of word numbers and log scores, and a trie of the sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.base.textio import StrPath
from moses_bridge.builtin.decoder.row_reader import (
    FEW_COLUMNS,
    FULL,
    GOOD,
    NO_SOURCE,
    parse_logs,
    read_table,
    refuse_row,
    row_end,
)
from moses_bridge.builtin.decoder.source_trie import (
    ROOT,
    SourceTrie,
    TrieTables,
    add_child,
    trie_has_room,
)
from moses_bridge.compiled.bytes_by_name import NEWLINE
from moses_bridge.compiled.inner import inner
from moses_bridge.compiled.lexicon import Lexicon, LexiconTables, add_word, has_room
from moses_bridge.compiled.scanning import line_end, next_token, same_bytes
from moses_bridge.formats.row_columns import (
    ALIGNMENT,
    RowColumns,
    column_behind_scores,
    find_columns,
    has_scores,
)


class TableRows(NamedTuple):
    """Rows of a phrase table, in the order of the file.

    Attributes:
        nodes: (n_rows,) int32, trie node of the source phrase.
        word_starts: (n_rows + 1,) int64, where a row's target words start in `words`.
        words: int32, target word numbers.
        link_starts: (n_rows + 1,) int64, where a row's links start in `links`.
        links: uint8, the text of the fourth column.
        scores: (n_rows, n_scores) float32, natural logarithms, at least -100.
    """

    nodes: NDArray[np.int32]
    word_starts: NDArray[np.int64]
    words: NDArray[np.int32]
    link_starts: NDArray[np.int64]
    links: NDArray[np.uint8]
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class LoadedTable:
    """A phrase table with an index of its rows.

    Attributes:
        rows: the rows.
        trie: the source phrases.
        source_words: numbers of the words of the sources.
        node_starts: (n_nodes + 1,) int64; rows of node i: node_rows[node_starts[i]:node_starts[i+1]].
        node_rows: (n_rows,) int64, row numbers by node, each node's in the order of the file.
    """

    rows: TableRows
    trie: TrieTables
    source_words: LexiconTables
    node_starts: NDArray[np.int64]
    node_rows: NDArray[np.int64]


def load_table(path: StrPath, n_scores: int, target_words: Lexicon) -> LoadedTable:
    """Read a text phrase table; its target words are added to target_words.

    Args:
        path: path of the table.
        n_scores: number of scores of each row.
        target_words: numbers of the target words, shared with the language model.

    Raises:
        InputError: the file cannot be read, or a row has fewer than three columns, no source words, another
            number of scores, or a score that is not a finite non-negative number.
    """
    data = read_table(path)
    rows = _empty_rows(data, n_scores)
    source_words, trie = Lexicon(), SourceTrie()
    position = row = 0
    while True:
        position, row, problem = _parse_rows(
            data, position, row, rows, source_words.tables, target_words.tables, trie.tables
        )
        if problem == GOOD:
            break
        if problem != FULL:
            raise refuse_row(path, data, position, row, problem, n_scores)
        source_words.grow()
        target_words.grow()
        trie.grow()
    rows = _trimmed(rows, row)
    node_starts, node_rows = _rows_by_node(rows.nodes, len(trie))
    return LoadedTable(rows, trie.tables, source_words.tables, node_starts, node_rows)


def _empty_rows(data: NDArray[np.uint8], n_scores: int) -> TableRows:
    """Arrays large enough for any text of this size; unwritten pages need no memory."""
    n_rows = int(np.count_nonzero(data == NEWLINE))
    return TableRows(
        nodes=np.empty(n_rows, np.int32),
        word_starts=np.zeros(n_rows + 1, np.int64),
        words=np.empty(len(data) // 2 + 1, np.int32),
        link_starts=np.zeros(n_rows + 1, np.int64),
        links=np.empty(len(data), np.uint8),
        scores=np.empty((n_rows, n_scores), np.float32),
    )


def _trimmed(rows: TableRows, n_rows: int) -> TableRows:
    return rows._replace(
        words=rows.words[: rows.word_starts[n_rows]].copy(),
        links=rows.links[: rows.link_starts[n_rows]].copy(),
    )


def _rows_by_node(
    nodes: NDArray[np.int32], n_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    counts = np.bincount(nodes, minlength=n_nodes)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return starts, np.argsort(nodes, kind="stable").astype(np.int64)


@njit(cache=True)
def _parse_rows(
    data: Any, position: int, row: int, rows: TableRows,
    source_words: LexiconTables, target_words: LexiconTables, trie: TrieTables,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill rows from `position` on; return the position, the number of rows and the reason for ending."""
    last_start, last_length, node = 0, -1, ROOT
    while position < len(data):
        end = line_end(data, position)
        length = end - position
        if not (
            has_room(source_words, length)
            and has_room(target_words, length)
            and trie_has_room(trie, length)
        ):
            return position, row, FULL
        columns = find_columns(data, position, row_end(data, end))
        if columns.source_end == columns.end:
            return position, row, FEW_COLUMNS
        n_bytes = columns.source_end - position
        if n_bytes != last_length or not same_bytes(data, position, data, last_start, n_bytes):
            node = _add_source(data, position, columns.source_end, source_words, trie)
            last_start, last_length = position, n_bytes
        if node == ROOT:
            return position, row, NO_SOURCE
        rows.nodes[row] = node
        problem = _parse_columns(data, columns, row, rows, target_words)
        if problem != GOOD:
            return position, row, problem
        position = end + 1
        row += 1
    return position, row, GOOD


@inner
def _add_source(data: Any, position: int, end: int, words: LexiconTables, trie: TrieTables) -> int:
    node = ROOT
    start, position = next_token(data, position, end)
    while start < position:
        node = add_child(trie, node, add_word(words, data, start, position))
        start, position = next_token(data, position, end)
    return node


@inner
def _parse_columns(
    data: Any, columns: RowColumns, row: int, rows: TableRows, target_words: LexiconTables
) -> int:
    """Read target, scores and links of a row; return GOOD or the problem."""
    if not has_scores(columns):
        return FEW_COLUMNS
    n_words = rows.word_starts[row]
    start, position = next_token(data, columns.target, columns.target_end)
    while start < position:
        rows.words[n_words] = add_word(target_words, data, start, position)
        n_words += 1
        start, position = next_token(data, position, columns.target_end)
    rows.word_starts[row + 1] = n_words
    n_links = rows.link_starts[row]
    links, links_end = column_behind_scores(data, columns, ALIGNMENT)
    for i in range(links, links_end):
        rows.links[n_links] = data[i]
        n_links += 1
    rows.link_starts[row + 1] = n_links
    return int(parse_logs(data, columns.scores, columns.scores_end, rows.scores[row]))
