"""Per-table score values of phrase pairs and their masses.

A combined score is w·values / w·masses with the weights w of the tables:

| | values | masses of p(f|e) | masses of p(e|f) |
|---|---|---|---|
| mixture, unknown phrases as zero | the scores | 1 | 1 |
| mixture, renormalised | the scores | whether the table has e | whether it has f |
| counts | count(f, e) | count(e) | count(f) |

docs/combine.md says what the lexical weights are. Target phrases are kept as digests of 64 bits: two of 50
million phrases share one once in ten thousand runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.choices import UnknownPhrases
from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import track_lines
from moses_bridge.formats.phrase_table import joint_count, pair_counts, parse_row, source_count
from moses_bridge.formats.row_columns import (
    BAR,
    DIRECT_LEXICAL,
    DIRECT_PROB,
    INVERSE_LEXICAL,
    INVERSE_PROB,
    SCORES,
)
from moses_bridge.tables.combination.merged_tables import TableRow, UnitedPair, sorted_rows

N_SCORES = 4
ROWS_AT_ONCE = 1 << 20
DIGEST_BYTES = 8
Mass = Callable[[TableRow], float]


class TableValues(NamedTuple):
    """Values and masses of pairs, *Shape:* (n_pairs, 4, n_tables) each."""

    values: NDArray[np.float64]
    masses: NDArray[np.float64]

    def combined(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores of the pairs (n_pairs, 4), under weights (4, n_tables) of the tables for each score."""
        above = np.einsum("pst,st->ps", self.values, weights)
        below = np.einsum("pst,st->ps", self.masses, weights)
        return np.asarray(above / below)


ReadValues = Callable[[Sequence[UnitedPair]], TableValues]


class PairCounts(NamedTuple):
    """Counts of pairs in each table, *Shape:* (n_pairs, n_tables) each."""

    targets: NDArray[np.float64]
    sources: NDArray[np.float64]
    joint: NDArray[np.float64]


def mixture_values(tables: Sequence[Path], unknown: UnknownPhrases) -> ReadValues:
    """The reader of a mixture's values; with "renormalise", tables are read once for their targets."""
    is_zero = unknown == "zero"
    targets = None if is_zero else read_target_masses(tables, N_SCORES, lambda row: 1.0)

    def read(pairs: Sequence[UnitedPair]) -> TableValues:
        values = _scores(pairs)
        masses = np.ones_like(values)
        if targets is not None:
            has_source = [[row is not None for row in pair.source_rows] for pair in pairs]
            has_target = targets.of([pair.target for pair in pairs])
            masses[:, [INVERSE_PROB, INVERSE_LEXICAL]] = has_target[:, None]
            masses[:, [DIRECT_PROB, DIRECT_LEXICAL]] = np.array(has_source, np.float64)[:, None]
        return TableValues(values, masses)

    return read


def _scores(pairs: Sequence[UnitedPair]) -> NDArray[np.float64]:
    """The scores in each table (n_pairs, 4, n_tables), 0 if it lacks the pair."""
    scores = np.zeros((len(pairs), N_SCORES, len(pairs[0].rows)))
    for table in range(scores.shape[2]):
        places = [place for place, pair in enumerate(pairs) if pair.rows[table]]
        rows = [row for pair in pairs if (row := pair.rows[table])]
        columns = [row.line.split(BAR, SCORES + 1)[SCORES] for row in rows]
        found = np.array([*map(float, b" ".join(columns).split())]).reshape(len(rows), N_SCORES)
        for place in np.flatnonzero((found < 0).any(axis=1)):
            parse_row(*rows[int(place)].at, N_SCORES)  # raises the error
        scores[places, :, table] = found
    return scores


class CountValues:
    """The reader of values where counts are added; tables are read once for the counts of their targets.

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

    def __call__(self, pairs: Sequence[UnitedPair]) -> TableValues:
        """Values and masses of pairs."""
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
        return TableValues(values, masses)


def _target_count(row: TableRow) -> float:
    """The count of a row's target phrase; InputError if the row has no counts, or one of 0."""
    counts = pair_counts(*row.at)
    if not all(counts):
        raise InputError(row.path, row.line_number, "a count of 0", "counts above 0 in column 5")
    return counts[0]


@dataclass(frozen=True)
class TargetMasses:
    """The mass of target phrases in each table.

    Attributes:
        digests: (n_phrases,) ascending.
        masses: (n_phrases, n_tables) 0 if a table lacks a phrase.
    """

    digests: NDArray[np.uint64]
    masses: NDArray[np.float64]

    def of(self, targets: Sequence[bytes]) -> NDArray[np.float64]:
        """The masses of phrases of the tables, (n_targets, n_tables)."""
        wanted = np.array([digest(target) for target in targets], np.uint64)
        return np.asarray(self.masses[np.searchsorted(self.digests, wanted)])


def digest(phrase: bytes) -> int:
    """A number of 64 bits for a phrase, the same on every machine."""
    return int.from_bytes(blake2b(phrase, digest_size=DIGEST_BYTES).digest())


def read_target_masses(tables: Sequence[Path], n_scores: int, mass: Mass) -> TargetMasses:
    """Read the masses of all target phrases; all rows of a table with one phrase must have the same mass.

    Raises:
        InputError: a row is malformed or out of order, or a phrase has two masses in a table.
    """
    columns = [_distinct(table, n_scores, mass) for table in tables]
    digests = np.unique(np.concatenate([column.digests for column in columns]))
    masses = np.zeros((len(digests), len(tables)))
    for place, column in enumerate(columns):
        masses[np.searchsorted(digests, column.digests), place] = column.masses
    return TargetMasses(digests, masses)


@dataclass(frozen=True)
class _DistinctTargets:
    digests: NDArray[np.uint64]
    masses: NDArray[np.float64]
    lines: NDArray[np.int64]


def _distinct(table: Path, n_scores: int, mass: Mass) -> _DistinctTargets:
    column = _DistinctTargets(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64))
    digests, masses = array("Q"), array("d")
    n_rows = 0
    rows = track_lines(sorted_rows(table, n_scores), f"read {table.name}", table)
    for n_rows, row in enumerate(rows, start=1):
        digests.append(digest(row.target))
        masses.append(mass(row))
        if len(digests) >= max(ROWS_AT_ONCE, len(column.digests)):
            column = _joined(table, column, digests, masses, n_rows)
            digests, masses = array("Q"), array("d")
    return _joined(table, column, digests, masses, n_rows)


def _joined(
    table: Path, column: _DistinctTargets, digests: array[int], masses: array[float], n_rows: int
) -> _DistinctTargets:
    """The distinct targets of the rows up to row `n_rows`."""
    new_lines = np.arange(n_rows - len(digests) + 1, n_rows + 1)
    all_digests = np.concatenate([column.digests, np.array(digests, np.uint64)])
    all_masses = np.concatenate([column.masses, np.array(masses)])
    all_lines = np.concatenate([column.lines, new_lines])
    distinct, first, places = np.unique(all_digests, return_index=True, return_inverse=True)
    differs = np.flatnonzero(all_masses != all_masses[first][places])
    if len(differs):
        row, earlier = differs[0], first[places[differs[0]]]
        found = f"a count(target) of {all_masses[row]:g}"
        expected = (
            f"{all_masses[earlier]:g} as in row {all_lines[earlier]}, which has the same target"
        )
        hint = "Take a table whose rows were counted together"
        raise InputError(table, int(all_lines[row]), found, expected, hint)
    return _DistinctTargets(distinct, all_masses[first], all_lines[first])
