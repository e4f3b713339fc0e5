"""What each table says about the scores of phrase pairs, and how much it has a say.

A combined score is w·values / w·masses with the weights w of the tables. How values and masses are set:

| | values | masses of p(f|e) | masses of p(e|f) |
|---|---|---|---|
| mixture, unknown phrases as zero | the scores | 1 | 1 |
| mixture, renormalised | the scores | whether the table has e | whether it has f |
| counts | count(f, e) | count(e) | count(f) |

The lexical weights of a mixture are treated as the probability of the same direction. Where counts are added, a
lexical weight is a mean over the tables that have the pair, weighted by count(e) or count(f): the counts of
words are in no table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.choices import UnknownPhrases
from moses_bridge.base.errors import InputError
from moses_bridge.formats.phrase_table import (
    joint_count,
    pair_counts,
    parse_row,
    source_count,
)
from moses_bridge.formats.row_columns import (
    BAR,
    DIRECT_LEXICAL,
    DIRECT_PROB,
    INVERSE_LEXICAL,
    INVERSE_PROB,
    SCORES,
)
from moses_bridge.tables.combination.merged_tables import TableRow, UnitedPair
from moses_bridge.tables.combination.phrase_masses import read_target_masses

N_SCORES = 4


class Opinions(NamedTuple):
    """What tables say about pairs.

    Attributes:
        values: (n_pairs, 4, n_tables)
        masses: (n_pairs, 4, n_tables)
    """

    values: NDArray[np.float64]
    masses: NDArray[np.float64]

    def combined(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores of the pairs, (n_pairs, 4).

        Args:
            weights: (4, n_tables) weights of the tables for each score.
        """
        above = np.einsum("pst,st->ps", self.values, weights)
        below = np.einsum("pst,st->ps", self.masses, weights)
        return np.asarray(above / below)


Judge = Callable[[Sequence[UnitedPair]], Opinions]


class PairCounts(NamedTuple):
    """Counts of pairs in each table, *Shape:* (n_pairs, n_tables) each."""

    targets: NDArray[np.float64]
    sources: NDArray[np.float64]
    joint: NDArray[np.float64]


def mixture_judge(tables: Sequence[Path], unknown: UnknownPhrases) -> Judge:
    """What the tables of a mixture say; with "renormalise", they are read once for their targets.

    Raises:
        InputError: a row is malformed or out of order.
    """
    if unknown == "zero":
        return _plain_opinions
    targets = read_target_masses(tables, N_SCORES, lambda row: 1.0)

    def opinions(pairs: Sequence[UnitedPair]) -> Opinions:
        values = _scores(pairs)
        masses = np.empty_like(values)
        has_target = targets.of([pair.target for pair in pairs])
        masses[:, [INVERSE_PROB, INVERSE_LEXICAL]] = has_target[:, None]
        masses[:, [DIRECT_PROB, DIRECT_LEXICAL]] = _has_source(pairs)[:, None]
        return Opinions(values, masses)

    return opinions


def _plain_opinions(pairs: Sequence[UnitedPair]) -> Opinions:
    values = _scores(pairs)
    return Opinions(values, np.ones_like(values))


def _scores(pairs: Sequence[UnitedPair]) -> NDArray[np.float64]:
    """(n_pairs, 4, n_tables) 0 where a table lacks the pair."""
    scores = np.zeros((len(pairs), N_SCORES, len(pairs[0].rows)))
    for table in range(scores.shape[2]):
        places = [place for place, pair in enumerate(pairs) if pair.rows[table]]
        rows = [row for pair in pairs if (row := pair.rows[table])]
        scores[places, :, table] = _scores_of(rows)
    return scores


def _scores_of(rows: Sequence[TableRow]) -> NDArray[np.float64]:
    """(n_rows, 4) scores of rows of a table."""
    columns = [row.line.split(BAR, SCORES + 1)[SCORES] for row in rows]
    scores = np.array([*map(float, b" ".join(columns).split())]).reshape(len(rows), N_SCORES)
    for place in np.flatnonzero((scores < 0).any(axis=1)):
        parse_row(*rows[int(place)].at, N_SCORES)  # raises the error
    return scores


def _has_source(pairs: Sequence[UnitedPair]) -> NDArray[np.float64]:
    return np.array([[row is not None for row in pair.source_rows] for pair in pairs], np.float64)


class CountJudge:
    """What tables say whose counts are added; they are read once for the counts of their targets.

    Raises:
        InputError: a row is malformed, out of order or has no counts, or a target has two counts.
    """

    def __init__(self, tables: Sequence[Path]) -> None:
        self._targets = read_target_masses(tables, N_SCORES, _target_count)

    def counts(self, pairs: Sequence[UnitedPair]) -> PairCounts:
        """The counts of pairs in each table."""
        sources = [[source_count(*row.at) if row else 0 for row in p.source_rows] for p in pairs]
        joint = [[joint_count(*row.at) if row else 0 for row in pair.rows] for pair in pairs]
        targets = self._targets.of([pair.target for pair in pairs])
        return PairCounts(targets, np.array(sources, np.float64), np.array(joint, np.float64))

    def __call__(self, pairs: Sequence[UnitedPair]) -> Opinions:
        """What the tables say about pairs."""
        counts, scores = self.counts(pairs), _scores(pairs)
        values, masses = np.empty_like(scores), np.empty_like(scores)
        has_pair = np.array([[row is not None for row in pair.rows] for pair in pairs])
        for prob, lexical, marginals in (
            (INVERSE_PROB, INVERSE_LEXICAL, counts.targets),
            (DIRECT_PROB, DIRECT_LEXICAL, counts.sources),
        ):
            values[:, prob], masses[:, prob] = counts.joint, marginals
            masses[:, lexical] = marginals * has_pair
            values[:, lexical] = scores[:, lexical] * masses[:, lexical]
        return Opinions(values, masses)


def _target_count(row: TableRow) -> float:
    """The count of a row's target phrase.

    Raises:
        InputError: the row has no counts, or one of 0.
    """
    counts = pair_counts(*row.at)
    if not all(counts):
        raise InputError(row.path, row.line_number, "a count of 0", "counts above 0 in column 5")
    return counts[0]
