"""The lexicalised reordering table, its rows beside those of the phrase table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.lexicon import LexiconTables, find_word
from moses_bridge.builtin.decoder.loaded_table import PairTables, PhrasePairs
from moses_bridge.builtin.decoder.row_reader import (
    FEW_COLUMNS,
    GOOD,
    column_end,
    line_end,
    next_token,
    parse_logs,
    read_table,
    refuse_row,
)
from moses_bridge.builtin.decoder.source_trie import ROOT, TrieTables, child_of
from moses_bridge.compiled.inner import inner
from moses_bridge.textio import StrPath

N_SCORES = 6  # monotone, swap, discontinuous to the previous phrase; the same to the next one
MONOTONE, SWAP, DISCONTINUOUS = range(3)


class RowFinder(NamedTuple):
    """An open-addressing table from (source node, target words) to the first row that has them.

    Attributes:
        slots: int64, a row or -1.
        twins: int64, for each row the next row of the same pair, or -1.
    """

    slots: NDArray[np.int64]
    twins: NDArray[np.int64]


def read_reordering(
    path: StrPath, pairs: PhrasePairs, target_words: LexiconTables
) -> NDArray[np.float32]:
    """The natural logarithms (n_rows of the phrase table, 6); 0 for pairs the table does not have.

    Moses counts nothing for a phrase pair without a row (LRState::CopyScores).

    Raises:
        InputError: a row has fewer than three columns, not 6 scores, or a score that is not a finite
            number of at least 0.
    """
    data = read_table(path)
    scores = np.zeros((len(pairs.rows.nodes), N_SCORES), np.float32)
    position, row, problem = _parse_rows(
        data, pairs.rows, _make_finder(pairs.rows), pairs.source_words, target_words,
        pairs.trie, scores,
    )  # fmt: skip
    if problem != GOOD:
        raise refuse_row(path, data, position, row, problem, N_SCORES)
    return scores


def _make_finder(rows: PairTables) -> RowFinder:
    n_rows = len(rows.nodes)
    n_slots = 1 << max(4, (2 * n_rows).bit_length())
    finder = RowFinder(np.full(n_slots, -1, np.int64), np.full(n_rows, -1, np.int64))
    _enter_rows(rows, finder)
    return finder


@inner
def _slot_of(rows: PairTables, finder: RowFinder, node: int, words: Any, n_words: int) -> int:
    code = np.uint64(node) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(n_words):
        code = (code ^ (code >> np.uint64(29)) ^ np.uint64(words[i])) * np.uint64(1099511628211)
    mask = len(finder.slots) - 1
    slot = int(np.int64(code ^ (code >> np.uint64(32))) & mask)
    while finder.slots[slot] >= 0 and not _is_row(rows, finder.slots[slot], node, words, n_words):
        slot = (slot + 1) & mask
    return slot


@inner
def _is_row(rows: PairTables, row: int, node: int, words: Any, n_words: int) -> bool:
    first = rows.word_starts[row]
    if rows.nodes[row] != node or rows.word_starts[row + 1] - first != n_words:
        return False
    for i in range(n_words):  # noqa: SIM110 (slow when compiled)
        if rows.words[first + i] != words[i]:
            return False
    return True


@njit(cache=True)
def _enter_rows(rows: PairTables, finder: RowFinder) -> None:
    for row in range(len(rows.nodes)):
        first, last = rows.word_starts[row], rows.word_starts[row + 1]
        slot = _slot_of(rows, finder, rows.nodes[row], rows.words[first:last], last - first)
        finder.twins[row] = finder.slots[slot]
        finder.slots[slot] = row


@inner
def _source_node(data: Any, position: int, end: int, words: LexiconTables, trie: TrieTables) -> int:
    node = ROOT
    start, position = next_token(data, position, end)
    while start < position and node >= 0:
        word = find_word(words, data, start, position)
        node = child_of(trie, node, word) if word >= 0 else -1
        start, position = next_token(data, position, end)
    return node


@inner
def _target_words(data: Any, position: int, end: int, words: LexiconTables, out: Any) -> int:
    """Fill `out`; the number of words, -1 if one of them is not in the phrase table."""
    n_words = 0
    start, position = next_token(data, position, end)
    while start < position:
        word = find_word(words, data, start, position)
        if word < 0 or n_words == len(out):
            return -1
        out[n_words] = word
        n_words += 1
        start, position = next_token(data, position, end)
    return n_words


@njit(cache=True)
def _parse_rows(
    data: Any, rows: PairTables, finder: RowFinder, source_words: LexiconTables,
    target_words: LexiconTables, trie: TrieTables, scores: Any,
) -> tuple[int, int, int]:  # fmt: skip
    words = np.zeros(1000, np.int32)
    values = np.zeros(scores.shape[1], np.float32)
    position = n_read = 0
    while position < len(data):
        end = line_end(data, position)
        stop = end - 1 if end > position and data[end - 1] == 13 else end
        source_end = column_end(data, position, stop)
        target_end = column_end(data, source_end + 3, stop)
        if source_end >= stop or target_end >= stop:
            return position, n_read, FEW_COLUMNS
        problem = parse_logs(data, target_end + 3, column_end(data, target_end + 3, stop), values)
        if problem != GOOD:
            return position, n_read, problem
        node = _source_node(data, position, source_end, source_words, trie)
        n_words = _target_words(data, source_end + 3, target_end, target_words, words)
        if node >= 0 and n_words >= 0:
            row = finder.slots[_slot_of(rows, finder, node, words, n_words)]
            while row >= 0:
                scores[row] = values
                row = finder.twins[row]
        position = end + 1
        n_read += 1
    return position, n_read, GOOD
