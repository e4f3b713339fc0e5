"""The lexicalised reordering table, with its rows in the order of the phrase table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import (
    FREE,
    hash_next,
    hash_number,
    n_slots,
    next_slot,
    slot_of,
)
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.compiled.lexicon import LexiconTables, find_word
from moses_bridge.base.compiled.scanning import line_end, next_token
from moses_bridge.base.textio import StrPath
from moses_bridge.builtin.decoder.loaded_table import (
    FEW_COLUMNS,
    GOOD,
    LoadedTable,
    TableRows,
    parse_logs,
    read_table,
    refuse_row,
    row_end,
)
from moses_bridge.builtin.decoder.source_trie import NO_NODE, ROOT, TrieTables, child_of
from moses_bridge.formats.row_columns import find_columns, has_scores

N_SCORES = 6  # monotone, swap, discontinuous; towards the previous phrase, then towards the next
MOST_WORDS = 1000  # no phrase table has a longer target phrase


class RowFinder(NamedTuple):
    """A hash table from (source node, target words) to the last row of the phrase table with this pair."""

    slots: NDArray[np.int64]  # a row or FREE
    earlier: NDArray[np.int64]  # (n_rows,) the previous row with the same pair, or FREE


def read_reordering(
    path: StrPath, table: LoadedTable, target_words: LexiconTables
) -> NDArray[np.float32]:
    """Read the scores of all rows of the phrase table, as natural logarithms, *Shape:* (n_rows, 6).

    A phrase pair missing in the reordering table has scores of 0, as in Moses (LRState::CopyScores).

    Raises:
        InputError: the file cannot be read, or a row has fewer than three columns, not 6 scores, or a score
            that is not a finite non-negative number.
    """
    data = read_table(path)
    scores = np.zeros((len(table.rows.nodes), N_SCORES), np.float32)
    position, row, problem = _parse_rows(
        data, table.rows, _make_finder(table.rows), table.source_words, target_words,
        table.trie, scores,
    )  # fmt: skip
    if problem != GOOD:
        raise refuse_row(path, data, position, row, problem, N_SCORES)
    return scores


def _make_finder(rows: TableRows) -> RowFinder:
    n_rows = len(rows.nodes)
    finder = RowFinder(np.full(n_slots(n_rows), FREE, np.int64), np.full(n_rows, FREE, np.int64))
    _enter_rows(rows, finder)
    return finder


@inner
def _slot_of(rows: TableRows, finder: RowFinder, node: int, words: Any, n_words: int) -> int:
    code = hash_number(node)
    for i in range(n_words):
        code = hash_next(code, words[np.uintp(i)])
    slot = slot_of(code, len(finder.slots))
    while finder.slots[np.uintp(slot)] != FREE and not _is_row(
        rows, finder.slots[np.uintp(slot)], node, words, n_words
    ):
        slot = next_slot(slot, len(finder.slots))
    return int(slot)


@inner
def _is_row(rows: TableRows, row: int, node: int, words: Any, n_words: int) -> bool:
    first = rows.word_starts[np.uintp(row)]
    if rows.nodes[np.uintp(row)] != node or rows.word_starts[np.uintp(row + 1)] - first != n_words:
        return False
    for i in range(n_words):  # noqa: SIM110 (slow when compiled)
        if rows.words[np.uintp(first + i)] != words[np.uintp(i)]:
            return False
    return True


@compiled
def _enter_rows(rows: TableRows, finder: RowFinder) -> None:
    for row in range(len(rows.nodes)):
        first, last = rows.word_starts[row], rows.word_starts[row + 1]
        slot = _slot_of(rows, finder, rows.nodes[row], rows.words[first:last], last - first)
        finder.earlier[row] = finder.slots[slot]
        finder.slots[slot] = row


@inner
def _source_node(data: Any, position: int, end: int, words: LexiconTables, trie: TrieTables) -> int:
    node = ROOT
    start, position = next_token(data, position, end)
    while start < position and node != NO_NODE:
        word = find_word(words, data, start, position)
        node = child_of(trie, node, word) if word != FREE else NO_NODE
        start, position = next_token(data, position, end)
    return node


@inner
def _target_words(data: Any, position: int, end: int, words: LexiconTables, out: Any) -> int:
    """Fill `out` and return the number of words; -1 if one is not in the phrase table."""
    n_words = 0
    start, position = next_token(data, position, end)
    while start < position:
        word = find_word(words, data, start, position)
        if word == FREE or n_words == len(out):
            return -1
        out[n_words] = word
        n_words += 1
        start, position = next_token(data, position, end)
    return n_words


@compiled
def _parse_rows(
    data: Any, rows: TableRows, finder: RowFinder, source_words: LexiconTables,
    target_words: LexiconTables, trie: TrieTables, scores: Any,
) -> tuple[int, int, int]:  # fmt: skip
    words = np.zeros(MOST_WORDS, np.int32)
    values = np.zeros(scores.shape[1], np.float32)
    position = n_read = 0
    while position < len(data):
        end = line_end(data, position)
        columns = find_columns(data, position, row_end(data, end))
        if not has_scores(columns):
            return position, n_read, FEW_COLUMNS
        problem = parse_logs(data, columns.scores, columns.scores_end, values)
        if problem != GOOD:
            return position, n_read, problem
        node = _source_node(data, position, columns.source_end, source_words, trie)
        n_words = _target_words(data, columns.target, columns.target_end, target_words, words)
        if node != NO_NODE and n_words >= 0:
            row = finder.slots[_slot_of(rows, finder, node, words, n_words)]
            while row != FREE:
                for i in range(len(values)):
                    scores[row, i] = values[i]
                row = finder.earlier[row]
        position = end + 1
        n_read += 1
    return position, n_read, GOOD
