"""Phrase tables in memory: flat arrays of word numbers and log scores, and a trie of the sources.

Several tables are one: their rows are concatenated, and each has its own columns among the scores, 0 in the
rows of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import CARRIAGE_RETURN, MINUS, NEWLINE, PLUS
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.compiled.lexicon import Lexicon, LexiconTables, add_word, has_room
from moses_bridge.base.compiled.number_reader import read_number, value_of
from moses_bridge.base.compiled.scanning import line_end, next_token, same_bytes
from moses_bridge.base.errors import BYTES_SHOWN, InputError, shown
from moses_bridge.base.textio import PIECE_BYTES, StrPath, read_bytes
from moses_bridge.builtin.decoder.source_trie import (
    ROOT,
    SourceTrie,
    TrieTables,
    add_child,
    children_of_root,
    phrase_lengths,
    trie_has_room,
)
from moses_bridge.formats.row_columns import (
    ALIGNMENT,
    SPARSE,
    RowColumns,
    column_after_scores,
    find_columns,
    further_column,
    has_scores,
)

# The structures without room for a row; further results of reading one are in `row_reader`.
SOURCE_WORDS_FULL, TARGET_WORDS_FULL, TRIE_FULL = range(-3, 0)
# Results of reading a row: good, or the fault.
GOOD, FEW_COLUMNS, BAD_SCORE, N_SCORES, NO_SOURCE = range(5)
LOG_FLOOR = -100.0  # TransformScore and LOWEST_SCORE of Moses (moses/Util.h, moses/TypeDef.h)


@dataclass(frozen=True)
class TableFile:
    """A phrase table to read, with n_scores scores in each row."""

    path: Path
    n_scores: int
    for_unknown: bool = False  # its rows are only for otherwise unknown words; see `DecodingPath`
    restricted_to: int | None = (
        None  # its rows are only for source phrases of the table of this number
    )


class TableRows(NamedTuple):
    """Rows of phrase tables, in the order of the files.

    Attributes:
        nodes: (n_rows,) int32, trie node of the source phrase.
        word_starts: (n_rows + 1,) int64, the start of a row's target words in `words`.
        words: int32, target word numbers.
        link_starts: (n_rows + 1,) int64, the start of a row's links in `links`.
        links: uint8, the text of the fourth column.
        sparse_starts: (n_rows + 1,) int64, the start of a row's text in `sparse`; empty if no row has one.
        sparse: uint8, the text of the sixth column.
        scores: (n_rows, n_scores) float32, natural logarithms, at least -100.
    """

    nodes: NDArray[np.int32]
    word_starts: NDArray[np.int64]
    words: NDArray[np.int32]
    link_starts: NDArray[np.int64]
    links: NDArray[np.uint8]
    sparse_starts: NDArray[np.int64]
    sparse: NDArray[np.uint8]
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class LoadedTable:
    """Phrase tables with an index of their rows.

    Attributes:
        files: the tables.
        first_rows: (n_tables + 1,) int64, the first row of each table.
        rows: the rows.
        trie: the source phrases.
        source_words: numbers of the words of the sources.
        node_starts: (n_nodes + 1,) int64; rows of node i: node_rows[node_starts[i]:node_starts[i+1]].
        node_rows: int64, row numbers by node, each node's in file order, without the unused rows.
    """

    files: tuple[TableFile, ...]
    first_rows: NDArray[np.int64]
    rows: TableRows
    trie: TrieTables
    source_words: LexiconTables
    node_starts: NDArray[np.int64]
    node_rows: NDArray[np.int64]

    def words_alone(self) -> NDArray[np.int64]:
        """Numbers of the source words that have a row of their own."""
        words, nodes = children_of_root(self.trie)
        return words[self.node_starts[nodes] < self.node_starts[nodes + 1]]


def load_tables(files: Sequence[TableFile], target_words: Lexicon) -> LoadedTable:
    """Read text phrase tables, in the order of the decoding paths, and add their target words to target_words.

    Raises:
        InputError: a file cannot be read, or a row has fewer than three columns, no source words, an
            unexpected number of scores, or a score that is not a finite non-negative number.
    """
    source_words, trie = Lexicon(), SourceTrie()
    parts = [_read_rows(file, source_words, target_words, trie) for file in files]
    first_rows = np.cumsum([0, *(len(part.nodes) for part in parts)])
    rows = _join_rows(parts)
    if not len(rows.sparse):
        rows = rows._replace(sparse_starts=np.zeros(0, np.int64))
    node_starts, node_rows = _rows_by_node(rows.nodes, len(trie))
    table = LoadedTable(
        tuple(files), first_rows, rows, trie.tables, source_words.tables, node_starts, node_rows
    )
    is_partial = any(file.for_unknown or file.restricted_to is not None for file in files)
    return _without_unused_rows(table) if is_partial else table


def _read_rows(
    file: TableFile, source_words: Lexicon, target_words: Lexicon, trie: SourceTrie
) -> TableRows:
    data = read_table(file.path)
    rows = _empty_rows(data, file.n_scores)
    growing: dict[int, Lexicon | SourceTrie] = {
        SOURCE_WORDS_FULL: source_words,
        TARGET_WORDS_FULL: target_words,
        TRIE_FULL: trie,
    }
    position = row = 0
    while True:
        position, row, problem = _parse_rows(
            data, position, row, rows, source_words.tables, target_words.tables, trie.tables
        )
        if problem == GOOD:
            return _trimmed(rows, row)
        if problem not in growing:
            raise refuse_row(file.path, data, position, row, problem, file.n_scores)
        growing[problem].grow()


def _empty_rows(data: NDArray[np.uint8], n_scores: int) -> TableRows:
    """Make arrays large enough for any text of this size; unwritten pages need no memory."""
    n_rows = sum(
        np.count_nonzero(data[start : start + PIECE_BYTES] == NEWLINE)
        for start in range(0, len(data), PIECE_BYTES)
    )
    return TableRows(
        nodes=np.empty(n_rows, np.int32),
        word_starts=np.zeros(n_rows + 1, np.int64),
        words=np.empty(len(data) // 2 + 1, np.int32),
        link_starts=np.zeros(n_rows + 1, np.int64),
        links=np.empty(len(data), np.uint8),
        sparse_starts=np.zeros(n_rows + 1, np.int64),
        sparse=np.empty(len(data), np.uint8),
        scores=np.empty((n_rows, n_scores), np.float32),
    )


def _trimmed(rows: TableRows, n_rows: int) -> TableRows:
    return rows._replace(
        words=rows.words[: rows.word_starts[n_rows]].copy(),
        links=rows.links[: rows.link_starts[n_rows]].copy(),
        sparse=rows.sparse[: rows.sparse_starts[n_rows]].copy(),
    )


def _join_rows(parts: Sequence[TableRows]) -> TableRows:
    """Concatenate the rows of all tables, with 0 as the scores of other tables."""
    if len(parts) == 1:
        return parts[0]
    n_scores = [part.scores.shape[1] for part in parts]
    scores = np.zeros((sum(len(part.nodes) for part in parts), sum(n_scores)), np.float32)
    row = column = 0
    for part in parts:
        n_rows, n_columns = part.scores.shape
        scores[row : row + n_rows, column : column + n_columns] = part.scores
        row, column = row + n_rows, column + n_columns
    joined: dict[str, Any] = {
        name: _join_starts(arrays) if name.endswith("_starts") else np.concatenate(arrays)
        for name, *arrays in zip(TableRows._fields, *parts, strict=True)
        if name != "scores"
    }
    return TableRows(**joined, scores=scores)


def _join_starts(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    ends = np.cumsum([0, *(part[-1] for part in parts)])
    moved = [part[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *moved])


def rows_of_tables(table: LoadedTable) -> NDArray[np.int64]:
    """Count the used rows of each table at each node, *Shape:* (n_tables, n_nodes)."""
    if len(table.files) == 1:
        return np.diff(table.node_starts)[np.newaxis]
    nodes = table.rows.nodes[table.node_rows]
    owners = np.searchsorted(table.first_rows, table.node_rows, "right") - 1
    n_nodes = len(table.node_starts) - 1
    return np.stack(
        [np.bincount(nodes[owners == i], minlength=n_nodes) for i in range(len(table.files))]
    )


def _without_unused_rows(table: LoadedTable) -> LoadedTable:
    """Leave out rows `for_unknown` of otherwise translated source phrases, and those of restricted tables."""
    there = rows_of_tables(table) > 0
    for i, file in enumerate(table.files):
        if file.restricted_to is not None:
            there[i] &= there[file.restricted_to]
    is_word = phrase_lengths(table.trie) == 1
    used = there.copy()
    used[[file.for_unknown for file in table.files]] = False
    for i, file in enumerate(table.files):
        if file.for_unknown:
            used[i] = there[i] & is_word & ~used.any(0)
    owners = np.searchsorted(table.first_rows, table.node_rows, "right") - 1
    kept = table.node_rows[used[owners, table.rows.nodes[table.node_rows]]]
    counts = np.bincount(table.rows.nodes[kept], minlength=len(is_word))
    return replace(table, node_starts=np.cumsum([0, *counts]), node_rows=kept)


def _rows_by_node(
    nodes: NDArray[np.int32], n_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    counts = np.bincount(nodes, minlength=n_nodes)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return starts, np.argsort(nodes, kind="stable").astype(np.int64)


@compiled
def _parse_rows(
    data: Any, position: int, row: int, rows: TableRows,
    source_words: LexiconTables, target_words: LexiconTables, trie: TrieTables,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill rows from `position` on; return the position, the number of rows and the reason for stopping."""
    last_start, last_length, node = 0, -1, ROOT
    while position < len(data):
        end = line_end(data, position)
        length = end - position
        if not has_room(source_words, length):
            return position, row, SOURCE_WORDS_FULL
        if not has_room(target_words, length):
            return position, row, TARGET_WORDS_FULL
        if not trie_has_room(trie, length):
            return position, row, TRIE_FULL
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
    if not has_scores(columns):
        return FEW_COLUMNS
    n_words = rows.word_starts[row]
    start, position = next_token(data, columns.target, columns.target_end)
    while start < position:
        rows.words[n_words] = add_word(target_words, data, start, position)
        n_words += 1
        start, position = next_token(data, position, columns.target_end)
    rows.word_starts[row + 1] = n_words
    links, links_end = column_after_scores(data, columns, ALIGNMENT)
    _keep(data, links, links_end, row, rows.link_starts, rows.links)
    sparse, sparse_end = further_column(data, links_end, columns.end, SPARSE - ALIGNMENT)
    sparse, _ = next_token(data, sparse, sparse_end)
    _keep(data, sparse, sparse_end, row, rows.sparse_starts, rows.sparse)
    return int(parse_logs(data, columns.scores, columns.scores_end, rows.scores[row]))


@inner
def _keep(data: Any, first: int, last: int, row: int, starts: Any, texts: Any) -> None:
    """Append data[first:last] to the texts of the rows before."""
    place = starts[row]
    for i in range(first, last):
        texts[np.uintp(place)] = data[np.uintp(i)]
        place += 1
    starts[row + 1] = place


def read_table(path: StrPath) -> NDArray[np.uint8]:
    """Read all bytes of a table, decompressed, ending in "\\n".

    Raises:
        InputError: the file cannot be read or its compressed data is damaged.
    """
    data = read_bytes(path)
    if not data.endswith(b"\n") and data:
        data += b"\n"
    return np.frombuffer(data, np.uint8)


def refuse_row(
    path: StrPath, data: NDArray[np.uint8], position: int, row: int, problem: int, n_scores: int
) -> InputError:
    """Make the error for row number `row`, from 0, beginning at data[position]; `problem` is a fault above."""
    line = bytes(data[position : position + BYTES_SHOWN]).partition(b"\n")[0]
    expected = {
        FEW_COLUMNS: "at least 3 columns between '|||'",
        BAD_SCORE: "finite scores of at least 0 (Moses makes NaN of a negative one)",
        N_SCORES: f"{n_scores} scores in column 3",
        NO_SOURCE: "words in column 1",
    }[problem]
    return InputError(path, row + 1, shown(line), expected)


@inner
def row_end(data: Any, end: int) -> int:
    """The end of a row's text: the end of its line, or a carriage return there."""
    return end - 1 if end > 0 and data[end - 1] == CARRIAGE_RETURN else end


@inner
def parse_score(data: Any, start: int, end: int) -> float:
    """The finite unsigned number in data[start:end]; -1 if there is anything else."""
    if data[start] == PLUS or data[start] == MINUS:
        return -1.0
    number = read_number(data, start, end)
    value = value_of(number)
    return value if number.end == end and value < math.inf else -1.0


@inner
def parse_logs(data: Any, position: int, end: int, out: Any) -> int:
    """Fill `out` with the floored natural logarithms of exactly len(out) scores; return GOOD or the fault."""
    for i in range(len(out)):
        start, position = next_token(data, position, end)
        if start == position:
            return N_SCORES
        value = parse_score(data, start, position)
        if value < 0.0:
            return BAD_SCORE
        out[i] = max(LOG_FLOOR, math.log(value)) if value > 0.0 else LOG_FLOOR
    start, position = next_token(data, position, end)
    return N_SCORES if start < position else GOOD
