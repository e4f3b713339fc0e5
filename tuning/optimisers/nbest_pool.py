"""A pool of hypotheses: features and statistics of all n-best lists of a tuning run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath
from tuning.metrics.bleu import BLEU
from tuning.metrics.metric import Metric

MAX_FEATURES = 1000  # columns of float64: a pool of a million hypotheses has 8 GB at this number

SparseValue = tuple[int, str, float]


@dataclass(frozen=True)
class NBestPool:
    """Hypotheses, those of a sentence together.

    Attributes:
        names: one name a feature column, as in "TranslationModel0_2".
        features: *Shape:* (n_hypotheses, n_features).
        statistics: of the metric, *Shape:* (n_hypotheses, n_statistics); BLEU has 9.
        sentence_ids: ids of the sentences with hypotheses, rising, *Shape:* (n_sentences,).
        offsets: first hypothesis of each sentence, and the number of hypotheses at the end,
            *Shape:* (n_sentences + 1,).
        metric: the metric to tune for.
    """

    names: tuple[str, ...]
    features: NDArray[np.float64]
    statistics: Any
    sentence_ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    metric: Metric = BLEU

    def __len__(self) -> int:
        return len(self.features)

    def best(self, weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """The first hypothesis with the highest weighted score, of each sentence."""
        return self.first_highest(weighted_scores(self.features, weights))

    def first_highest(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """The first hypothesis with the highest score, *Shape:* (n,), of each sentence."""
        top = np.maximum.reduceat(scores, self.offsets[:-1])
        is_top = np.flatnonzero(scores == np.repeat(top, np.diff(self.offsets)))
        places = np.searchsorted(is_top, self.offsets[:-1])
        return np.asarray(is_top[places], np.int64)

    def statistics_of(self, weights: NDArray[np.float64]) -> Any:
        """Summed statistics of the best hypotheses, *Shape:* (n_statistics,)."""
        return np.asarray(self.statistics[self.best(weights)].sum(axis=0))

    def goodness(self, weights: NDArray[np.float64]) -> float:
        """The metric of the best hypotheses, with a minus where less is better."""
        return float(self.metric.sign * self.metric.value(self.statistics_of(weights)))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Columns with the same value for all hypotheses of each sentence, *Shape:* (n_features,)."""
        return self.alike(self.features)

    def alike(self, rows: Any) -> NDArray[np.bool_]:
        """Columns of rows, one a hypothesis, with the same value for all hypotheses of each sentence."""
        low = np.minimum.reduceat(rows, self.offsets[:-1])
        return np.asarray((low == np.maximum.reduceat(rows, self.offsets[:-1])).all(axis=0))


def spread_within(pool: NBestPool) -> NDArray[np.float64]:
    """Standard deviation of each column within sentences, 1 for constant ones, *Shape:* (n_features,)."""
    sizes = np.diff(pool.offsets)
    means = np.add.reduceat(pool.features, pool.offsets[:-1]) / sizes[:, None]
    spread = np.sqrt(((pool.features - np.repeat(means, sizes, axis=0)) ** 2).mean(axis=0))
    return np.where(pool.constant, 1.0, spread)


@njit(nogil=True)
def weighted_scores(features, weights):  # type: ignore[no-untyped-def]
    """The products features @ weights, summed in the order of the columns: equal rows have equal scores."""
    scores = np.zeros(len(features))
    for row in range(len(features)):
        for column in range(len(weights)):
            scores[row] += features[row, column] * weights[column]
    return scores


def make_pool(
    names: tuple[str, ...],
    sentence_ids: NDArray[np.int64],
    features: NDArray[np.float64],
    statistics: Any,
    metric: Metric = BLEU,
) -> NBestPool:
    """Sort hypotheses by sentence and drop those equal in features and statistics (Data.cpp:52).

    *Shapes:* names (n_features,), sentence_ids (n,), features (n, n_features), statistics (n, n_statistics).
    """
    table = np.column_stack([sentence_ids, features, statistics]).astype(np.float64) + 0.0
    hashes = row_hashes(table)
    order = np.argsort(hashes, kind="stable")
    (alike,) = np.nonzero(hashes[order[1:]] == hashes[order[:-1]])
    same = (table[order[alike + 1]] == table[order[alike]]).all(axis=1)
    kept = np.sort(np.delete(order, alike[same] + 1))
    kept = kept[np.argsort(sentence_ids[kept], kind="stable")]
    distinct, starts = np.unique(sentence_ids[kept], return_index=True)
    offsets = np.append(starts, len(kept))
    return NBestPool(
        names, np.ascontiguousarray(features[kept]), statistics[kept], distinct, offsets, metric
    )


def row_hashes(table: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A number for each row, equal for equal rows, *Shape:* (n,)."""
    odd = np.random.default_rng(0).integers(0, 2**63, table.shape[1], np.uint64) * 2 + 1
    bits = table.view(np.uint64)
    return np.asarray(((bits ^ (bits >> np.uint64(29))) * odd).sum(axis=1, dtype=np.uint64))


def merge_pools(first: NBestPool, second: NBestPool) -> NBestPool:
    """Merge two pools, with hypotheses in both kept once; sparse features may be in one pool alone.

    Raises:
        ValueError: they have other features.
    """
    pools = (first, second)
    dense, other = (tuple(name for name in pool.names if not is_sparse(name)) for pool in pools)
    if dense != other:
        raise ValueError(f"pools with other features: {dense} and {other}")
    names = (*dense, *sorted({name for pool in pools for name in pool.names} - set(dense)))
    ids = [np.repeat(pool.sentence_ids, np.diff(pool.offsets)) for pool in pools]
    return make_pool(
        names,
        np.concatenate(ids),
        np.concatenate([_columns(pool, names) for pool in pools]),
        np.concatenate([pool.statistics for pool in pools]),
        first.metric,
    )


def _columns(pool: NBestPool, names: Sequence[str]) -> NDArray[np.float64]:
    """The pool's columns of these names, 0 for missing ones: *Shape:* (n, n_names)."""
    if pool.names == tuple(names):
        return pool.features
    columns = np.zeros((len(pool), len(names)))
    for name, values in zip(pool.names, pool.features.T, strict=True):
        columns[:, names.index(name)] = values
    return columns


def column_names(sizes: dict[str, int]) -> tuple[str, ...]:
    """One name for each value, numbered from 0 as Moses does: LM0_0, TranslationModel0_3."""
    return tuple(f"{name}_{number}" for name, size in sizes.items() for number in range(size))


def grouped_weights(columns: Mapping[str, float]) -> dict[str, list[float]]:
    """Weights by feature, from weights by column name: the reverse of `column_names`."""
    grouped: dict[str, list[float]] = {}
    for column, weight in columns.items():
        grouped.setdefault(column.rpartition("_")[0], []).append(weight)
    return grouped


def is_sparse(column: str) -> bool:
    """Whether a column is a sparse feature: "WT_le~the_0" is, "LM0_0" is not."""
    return "_" in column.rpartition("_")[0]


def with_sparse(
    names: tuple[str, ...],
    values: NDArray[np.float64],
    sparse: Sequence[SparseValue],
    path: StrPath,
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Columns with one more for each sparse feature, sorted by name after the others.

    Names and values are those of the dense columns, *Shapes:* (n_features,) and (n, n_features); sparse
    values come from the file `path`.

    Raises:
        InputError: there are too many of them for columns.
    """
    added = {name: place for place, name in enumerate(sorted({name for _, name, _ in sparse}))}
    if not added:
        return names, values
    if len(added) > MAX_FEATURES:
        found = f"{len(added)} sparse features"
        raise InputError(path, None, found, f"at most {MAX_FEATURES}", "Leave rare ones out")
    columns = np.zeros((len(values), len(added)))
    for row, name, value in sparse:
        columns[row, added[name]] = value
    return (*names, *(f"{name}_0" for name in added)), np.hstack([values, columns])


def oracle_value(pool: NBestPool) -> float:
    """The metric of the hypotheses that are best alone, for BLEU by smoothed BLEU: about the best choice."""
    best = pool.first_highest(pool.metric.oracle_order(pool.statistics))
    return float(pool.metric.value(pool.statistics[best].sum(axis=0)))


def nothing_to_learn(pool: NBestPool, frozen: Collection[str] = ()) -> str:
    """Why no weights of a pool are better than others, with `frozen` columns kept; "" if some may be."""
    kept = np.array([name in frozen for name in pool.names])
    if len(pool) == len(pool.sentence_ids):
        reason = "all hypotheses of each sentence are the same"
    elif (pool.constant | kept).all():
        reason = "no feature whose weight may change differs between the hypotheses of a sentence"
    elif pool.alike(pool.statistics).all():
        reason = f"{pool.metric.label} is the same for all hypotheses of each sentence"
    else:
        return ""
    return f"nothing can be learned from these lists: {reason}"


def weight_row(pool: NBestPool, weights: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
    """Weights in the order of the pool's columns, 0 for a column without one, *Shape:* (n_features,)."""
    columns = (name.rpartition("_") for name in pool.names)
    return np.array(
        [weights[name][int(number)] if name in weights else 0.0 for name, _, number in columns]
    )
