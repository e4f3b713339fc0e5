"""How much each table knows of each target phrase: whether it has it, or how often it was extracted.

Phrases are kept as digests of 64 bits, so in memory are 8 bytes a distinct phrase, 8 more for each table,
and 24 a distinct phrase of a table while it is read. Two of 50 million phrases have the same digest once in
ten thousand runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import track_lines
from moses_bridge.tables.combination.merged_tables import TableRow, sorted_rows

ROWS_AT_ONCE = 1 << 20
DIGEST_BYTES = 8
Mass = Callable[[TableRow], float]


@dataclass(frozen=True)
class TargetMasses:
    """The mass of target phrases in each table.

    Attributes:
        digests: (n_phrases,) uint64, ascending.
        masses: (n_phrases, n_tables) 0 where a table lacks a phrase.
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
    """Read the masses of all target phrases.

    Args:
        tables: the tables.
        n_scores: scores of each row.
        mass: the mass of a row's target phrase; the same in all rows of a table with this phrase.

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
class _Column:
    """The distinct phrases of a table, each with its mass and the first row that has it."""

    digests: NDArray[np.uint64]
    masses: NDArray[np.float64]
    lines: NDArray[np.int64]


def _distinct(table: Path, n_scores: int, mass: Mass) -> _Column:
    column = _Column(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64))
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
    table: Path, column: _Column, digests: array[int], masses: array[float], n_rows: int
) -> _Column:
    """A column with the phrases of the rows up to row `n_rows`."""
    new_lines = np.arange(n_rows - len(digests) + 1, n_rows + 1)
    all_digests = np.concatenate([column.digests, np.array(digests, np.uint64)])
    all_masses = np.concatenate([column.masses, np.array(masses)])
    all_lines = np.concatenate([column.lines, new_lines])
    distinct, first, places = np.unique(all_digests, return_index=True, return_inverse=True)
    differs = np.flatnonzero(all_masses != all_masses[first][places])
    if len(differs):
        row, earlier = differs[0], first[places[differs[0]]]
        raise InputError(
            table,
            int(all_lines[row]),
            f"a count(target) of {all_masses[row]:g}",
            f"{all_masses[earlier]:g} as in row {all_lines[earlier]}, which has the same target",
            "Take a table whose rows were counted together",
        )
    return _Column(distinct, all_masses[first], all_lines[first])
