"""Phrase and reordering tables read in bulk: phrases and the logarithms of their scores."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import InputError
from moses_bridge.formats.phrase_table import read_rows, split_row
from moses_bridge.textio import StrPath, read_lines

LOWEST_SCORE = -100.0  # Moses's floor for logarithms (moses/Util.h, FloorScore)


@dataclass(frozen=True)
class ScoreTable:
    """The rows of a table.

    Attributes:
        sources: source phrases.
        targets: target phrases, words separated by one blank.
        scores: (n_rows, n_scores) float64, natural logarithms floored at -100.
    """

    sources: list[bytes]
    targets: list[bytes]
    scores: NDArray[np.float64]


def read_score_table(path: StrPath, n_scores: int) -> ScoreTable:
    """Read a table whose third column holds n_scores probabilities.

    Raises:
        InputError: a row has another number of scores or one that is not a probability.
    """
    sources, targets, columns = [], [], []
    for line_number, line in enumerate(read_lines(path), start=1):
        source, target, column = split_row(line, path, line_number)[:3]
        sources.append(source.strip(b" \t"))
        targets.append(target.strip(b" \t"))
        columns.append(column.strip(b" \t\r"))
    if not sources:
        raise InputError(path, None, "an empty table", "at least one row")
    probs = _parse_scores(columns, n_scores)
    if probs is None:
        probs = np.array([row.scores for row in read_rows(path, n_scores)])
    with np.errstate(divide="ignore"):
        log_probs = np.maximum(np.log(probs), LOWEST_SCORE)
    return ScoreTable(_with_single_blanks(sources), _with_single_blanks(targets), log_probs)


def _parse_scores(columns: list[bytes], n_scores: int) -> NDArray[np.float64] | None:
    """The scores as a matrix; None if some row has to be looked at more closely."""
    if any(column.count(b" ") != n_scores - 1 for column in columns):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            values = np.fromstring(b" ".join(columns), float, sep=" ")  # type: ignore[call-overload]
        except ValueError:
            return None
    if len(values) != len(columns) * n_scores or not np.isfinite(values).all() or values.min() < 0:
        return None
    return np.asarray(values.reshape(len(columns), n_scores))


def _with_single_blanks(phrases: list[bytes]) -> list[bytes]:
    return [
        b" ".join(split_words(phrase)) if b"  " in phrase or b"\t" in phrase else phrase
        for phrase in phrases
    ]


def split_words(text: bytes) -> list[bytes]:
    """Words between blanks and tabs, Moses's only separators; no other byte counts as a blank."""
    return [word for word in text.replace(b"\t", b" ").split(b" ") if word]


def aligned_scores(table: ScoreTable, other: ScoreTable) -> NDArray[np.float64]:
    """The scores of `other` for each row of `table`; 0 where it lacks the phrase pair, as in Moses."""
    if table.sources == other.sources and table.targets == other.targets:
        return other.scores
    rows = {pair: row for row, pair in enumerate(zip(other.sources, other.targets, strict=True))}
    found = np.array(
        [rows.get(pair, -1) for pair in zip(table.sources, table.targets, strict=True)]
    )
    return np.where((found >= 0)[:, None], other.scores[found], 0.0)
