"""The phrase tables of each decoding path, and the scores of translations shared by a group's tables.

Each table gives only its best translations under the weights to the group
(PhraseDictionaryGroup::CreateTargetPhraseCollection of Moses), so the scores of a group are computed when a
source phrase is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.scanning import same_bytes
from moses_bridge.builtin.decoder.decoding_paths import DecodingPath, TableGroup
from moses_bridge.builtin.decoder.loaded_table import TableRows

NO_COUNTS = -1
NO_ROW = -1
LOWEST_SCORE = -100.0  # moses/TypeDef.h


class Members(NamedTuple):
    """The tables of all paths; each path has a part of the columns of `scores`.

    Attributes:
        has_groups: whether a path has a group; otherwise only `first_tables` is used.
        first_tables: (n_paths + 1,) int64, the first table of each path.
        is_group, restricted, averaged, mixed: (n_paths,) bool; see `TableGroup`.
        counts: (n_paths, 3) int64, first columns of phrase counts, word counts and counts of sets; NO_COUNTS
            for none.
        limits: (n_tables,) int64, the most translations of a source phrase given by a table to its path; 0 for
            all.
        first_scores: (n_tables + 1,) int64, first column of each table in `loaded`.
        columns: (n_tables,) int64, the same in the scores of its path.
        own_weights: (n_tables,) int64, place of a table's own first weight in the weight vector.
        defaults: (n_columns,) float32, scores of a translation missing in all tables.
        shares: (n_columns, n_most_tables) float64, shares of the tables of a mixture.
        first_columns: (n_paths + 1,) int64, first column of each path.
        loaded: (n_rows, n_scores) float32, each table's own scores.
    """

    has_groups: bool
    first_tables: NDArray[np.int64]
    is_group: NDArray[np.bool_]
    restricted: NDArray[np.bool_]
    averaged: NDArray[np.bool_]
    mixed: NDArray[np.bool_]
    counts: NDArray[np.int64]
    limits: NDArray[np.int64]
    first_scores: NDArray[np.int64]
    columns: NDArray[np.int64]
    own_weights: NDArray[np.int64]
    defaults: NDArray[np.float32]
    shares: NDArray[np.float64]
    first_columns: NDArray[np.int64]
    loaded: NDArray[np.float32]


def make_members(
    paths: Sequence[DecodingPath], limits: Sequence[int], weight_places: Mapping[str, int],
    loaded: NDArray[np.float32],
) -> Members:  # fmt: skip
    """Arrange the tables of the decoding paths, with the limit and the `loaded` scores of each table.

    weight_places has the place of each feature's first weight in the weight vector.
    """
    tables = [table for path in paths for table in path.tables]
    groups = [path.group or TableGroup(path.tables) for path in paths]
    first_columns = _sums(path.feature.n_scores for path in paths)
    parts = [
        first + _sums(0 if group.shares else table.n_scores for table in group.members)[:-1]
        for first, group in zip(first_columns, groups, strict=False)
    ]
    return Members(
        has_groups=any(path.group for path in paths),
        first_tables=_sums(len(path.tables) for path in paths),
        is_group=np.array([path.group is not None for path in paths]),
        restricted=np.array([group.restrict for group in groups]),
        averaged=np.array([group.average for group in groups]),
        mixed=np.array([bool(group.shares) for group in groups]),
        counts=np.array([_counts(*pair) for pair in zip(groups, first_columns, strict=False)]),
        limits=np.array(limits, np.int64),
        first_scores=_sums(table.n_scores for table in tables),
        columns=np.concatenate(parts),
        own_weights=np.array([weight_places[table.name] for table in tables], np.int64),
        defaults=np.array(
            [*chain.from_iterable(g.defaults or (0,) * g.n_scores for g in groups)], np.float32
        ),
        shares=_shares(groups, first_columns),
        first_columns=first_columns,
        loaded=loaded,
    )


def _sums(sizes: Iterable[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *sizes], dtype=np.int64)


def _shares(groups: Sequence[TableGroup], first_columns: NDArray[np.int64]) -> NDArray[np.float64]:
    found = np.zeros((first_columns[-1], max(len(group.members) for group in groups)))
    for group, first in zip(groups, first_columns, strict=False):
        if group.shares:
            of_scores = np.reshape(group.shares, (group.n_scores, len(group.members)))
            found[first : first + group.n_scores, : len(group.members)] = of_scores
    return found


def _counts(group: TableGroup, first: int) -> list[int]:
    there = group.phrase_counts, group.word_counts, group.set_counts
    n_members = len(group.members)
    sizes = [group.n_table_scores, n_members * there[0], n_members * there[1]]
    places = first + np.cumsum(sizes)
    return [int(place) if use else NO_COUNTS for place, use in zip(places, there, strict=True)]


class NodeRows(NamedTuple):
    """The rows of one source phrase, those of a table together.

    Attributes:
        numbers: (n,) int64, numbers of the rows.
        alone: (n,) float64, the weighted score of each without its table's scores.
        owners: (n,) int64, the tables of the path with the translation, a bit for each; 0 for an unused row,
            not given to the path or with the same words as another row.
        parts: (n, n_most_tables) int64, the row of each of these tables; NO_ROW for none.
    """

    numbers: NDArray[np.int64]
    alone: NDArray[np.float64]
    owners: NDArray[np.int64]
    parts: NDArray[np.int64]


@inner_maker
def join_rows(
    found: NodeRows, rows: TableRows, first_rows: Any, members: Members, weights: Any
) -> None:
    """Fill the owners of a source phrase's rows, 0 at first, and the scores of the used rows."""
    end = 0
    for path in range(len(members.is_group)):
        start = end
        for table in range(members.first_tables[path], members.first_tables[path + 1]):
            begin = end
            while end < len(found.numbers) and found.numbers[end] < first_rows[table + 1]:
                end += 1
            for i in _given_rows(table, begin, end, found, members, weights):
                _add_row(i, start, end, path, table, found, rows, members)
        for i in range(start, end):
            if found.owners[i] != 0 and members.mixed[path]:
                _mix(path, found.numbers[i], found.parts[i], rows, members)
            elif found.owners[i] != 0:
                _copy_scores(path, found.numbers[i], found.parts[i], rows, members)
                _fill_rest(path, found.numbers[i], found.owners[i], rows, members)


@inner_maker
def _given_rows(
    table: int, begin: int, end: int, found: NodeRows, members: Members, weights: Any
) -> Any:
    """The rows given by a table to its path: the best under its own weights, or all in order."""
    if members.limits[table] == 0:
        return np.arange(begin, end)
    scores = found.alone[begin:end].copy()
    first, last = members.first_scores[table], members.first_scores[table + 1]
    for i in range(len(scores)):
        for j in range(first, last):
            weight = weights[members.own_weights[table] + j - first]
            scores[i] += weight * members.loaded[found.numbers[begin + i], j]
    return begin + np.argsort(-scores, kind="mergesort")[: members.limits[table]]


@inner
def _add_row(
    i: int, start: int, end: int, path: int, table: int, found: NodeRows, rows: TableRows,
    members: Members,
) -> None:  # fmt: skip
    """Make a row a part of its translation: in a group of the first row with the same words, else of itself."""
    row, place = found.numbers[i], i
    for other in range(start, end if members.is_group[path] else start):
        if found.owners[other] != 0 and _same_words(found.numbers[other], row, rows):
            place = other
            break
    number = table - members.first_tables[path]
    if found.owners[place] == 0 and members.restricted[path] and number > 0:
        return
    found.parts[place, number] = row
    found.owners[place] |= 1 << number


@inner
def _same_words(one: int, other: int, rows: TableRows) -> bool:
    first, second = rows.word_starts[one], rows.word_starts[other]
    length = rows.word_starts[one + 1] - first
    if rows.word_starts[other + 1] - second != length:
        return False
    return bool(same_bytes(rows.words, first, rows.words, second, length))


@inner
def _copy_scores(path: int, row: int, parts: Any, rows: TableRows, members: Members) -> None:
    """Give a translation the scores of its tables, and defaults for the other tables."""
    for j in range(members.first_columns[path], members.first_columns[path + 1]):
        rows.scores[row, j] = members.defaults[j]
    first_table = members.first_tables[path]
    for table in range(first_table, members.first_tables[path + 1]):
        part, first = parts[table - first_table], members.first_scores[table]
        if part != NO_ROW:
            for j in range(members.first_scores[table + 1] - first):
                rows.scores[row, members.columns[table] + j] = members.loaded[part, first + j]


@inner
def _mix(path: int, row: int, parts: Any, rows: TableRows, members: Members) -> None:
    """Give a translation the logarithms of its tables' mean probabilities, 0 for a table without it."""
    first_table, column = members.first_tables[path], members.first_columns[path]
    for j in range(members.first_columns[path + 1] - column):
        mean = 0.0
        for table in range(first_table, members.first_tables[path + 1]):
            part = parts[table - first_table]
            if part != NO_ROW:
                score = members.loaded[part, members.first_scores[table] + j]
                mean += members.shares[column + j, table - first_table] * np.exp(score)
        rows.scores[row, column + j] = max(np.log(mean), LOWEST_SCORE) if mean > 0 else LOWEST_SCORE


@inner
def _fill_rest(path: int, row: int, owners: int, rows: TableRows, members: Members) -> None:
    """Set the counts of a translation, and the mean scores of tables without it."""
    first_table, last_table = members.first_tables[path], members.first_tables[path + 1]
    counts, scores = members.counts[path], rows.scores[row]
    for number in range(last_table - first_table):
        if owners >> number & 1 and counts[0] != NO_COUNTS:
            scores[counts[0] + number] = 1
        if owners >> number & 1 and counts[1] != NO_COUNTS:
            scores[counts[1] + number] = rows.word_starts[row + 1] - rows.word_starts[row]
    if counts[2] != NO_COUNTS:
        scores[counts[2] + owners - 1] = 1
    if members.averaged[path]:
        _average(first_table, last_table, scores, owners, members)


@inner
def _average(first_table: int, last_table: int, scores: Any, owners: int, members: Members) -> None:
    """Give tables without a translation the mean scores of those with it; all have equally many scores."""
    for j in range(members.first_scores[first_table + 1] - members.first_scores[first_table]):
        total, n_owners = 0.0, 0
        for table in range(first_table, last_table):
            if owners >> (table - first_table) & 1:
                total += scores[members.columns[table] + j]
                n_owners += 1
        for table in range(first_table, last_table):
            if not owners >> (table - first_table) & 1:
                scores[members.columns[table] + j] = total / n_owners
