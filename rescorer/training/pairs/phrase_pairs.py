"""Selects the rows of a phrase table to learn from, and reads the table into records of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.blocks import read_whole_lines
from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.phrase_table import check_row, columns_of, direct_prob, joint_count
from moses_bridge.formats.row_columns import SCORES
from moses_bridge.formats.words import split_words
from rescorer.contract.choices import Weighting
from rescorer.training.pairs.record_spill import RecordSpill
from rescorer.training.pairs.row_records import LOW_HALF, NOT_GIVEN, Given, Wanted, read_records


@dataclass(frozen=True)
class PairChoice:
    """Which rows of a phrase table to learn from.

    Attributes:
        max_phrase_words: pairs with a longer side are left out.
        min_prob: pairs with a lower p(target | source), the third score, are left out.
        with_counts: whether the joint counts are read; pairs with a count of 0 are then left out.
        reverse_sides: whether targets are read as sources and sources as targets.
    """

    max_phrase_words: int = 7
    min_prob: float = 0.0
    with_counts: bool = False
    reverse_sides: bool = False


def weights_of(counts: NDArray[np.float64], weighting: Weighting) -> NDArray[np.float64]:
    """Weight of each pair in the loss, from their joint counts, *Shape:* (n_pairs,).

    "distinct" counts each pair once, as in the paper (section 3.1: frequencies are ignored); "count" weights it
    by its joint count, "sqrt-count" by the root of it.
    """
    if weighting == "distinct":
        return np.ones(len(counts))
    return counts if weighting == "count" else np.sqrt(counts)


def spill_rows(table: StrPath, choice: PairChoice, lexicon: Lexicon, spill: RecordSpill) -> int:
    """Read a table once, in pieces, and return its number of rows; lexicon and spill get those chosen.

    Raises:
        InputError: a row is malformed, or a needed number is missing.
    """
    max_words = min(choice.max_phrase_words, LOW_HALF)
    wanted = Wanted(0, max_words, choice.min_prob, choice.with_counts, choice.reverse_sides)
    with LineProgress("read phrase pairs", table) as progress:
        for piece in _ahead(read_whole_lines(table)):
            lexicon.make_room(len(piece))
            spill.make_room(len(piece))
            n_seen = spill.n_seen
            wanted = _read_piece(piece, table, choice, wanted, lexicon, spill)
            progress.update(spill.n_seen - n_seen)
    return spill.n_seen


def _read_piece(
    piece: bytes,
    table: StrPath,
    choice: PairChoice,
    wanted: Wanted,
    lexicon: Lexicon,
    spill: RecordSpill,
) -> Wanted:
    """Append the rows of a piece; rows that compiled code cannot judge are read one by one."""
    text, at, given = np.frombuffer(piece, np.uint8), 0, NOT_GIVEN
    while True:
        at = read_records(text, at, given, wanted, lexicon.tables, spill.records, spill.state)
        if at == len(text):
            return wanted
        line = piece[at : piece.index(b"\n", at)]
        place = (table, spill.n_seen + 1)
        n_scores = check_row(line, *place, wanted.n_scores or None)
        wanted = wanted._replace(n_scores=n_scores)
        given = _numbers_of(line, *place, choice)


def _numbers_of(line: bytes, table: StrPath, line_number: int, choice: PairChoice) -> Given:
    """The needed numbers of a row, if its sides are not too long."""
    phrases = columns_of(line)[:SCORES]
    if any(len(split_words(phrase)) > choice.max_phrase_words for phrase in phrases):
        return Given(True, 0.0, 0.0)
    prob = direct_prob(line, table, line_number) if choice.min_prob else 0.0
    is_counted = choice.with_counts and prob >= choice.min_prob
    return Given(True, prob, joint_count(line, table, line_number) if is_counted else 0.0)


def _ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces; a thread reads (and decompresses) the next one while one is used."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, pieces, b"")
        while piece := future.result():
            future = pool.submit(next, pieces, b"")
            yield piece
