"""A pool of hypotheses: features and statistics of all n-best lists of a tuning run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.compiled.kept_code import njit
from moses_bridge.formats.nbest import BAR, MAX_DIGITS, NBestEntry, parse_entry, parse_features
from tuning.pools.bleu_stats import BLEU
from tuning.pools.metric import Metric, MetricReferences
from tuning.pools.sparse_features import SparseValue, cut_sparse, is_sparse, with_sparse


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
        metric: what weights are tuned for.
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
        scores = weighted_scores(self.features, weights)
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
        low = np.minimum.reduceat(self.features, self.offsets[:-1])
        high = np.maximum.reduceat(self.features, self.offsets[:-1])
        return np.asarray((low == high).all(axis=0))


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


def read_pool(nbest_paths: Sequence[StrPath], references: MetricReferences) -> NBestPool:
    """Pool the n-best lists of several iterations.

    Raises:
        InputError: a line is malformed, has a value that is not a finite number, has other features
            than the first one, or names a sentence without a reference.
    """
    lists = [_read_list(path, len(references)) for path in nbest_paths]
    names = next((nbest.names for nbest in lists if nbest.texts), ())
    if not names:
        raise InputError(nbest_paths[0], None, "no hypothesis", "an n-best list")
    for path, nbest in zip(nbest_paths, lists, strict=True):
        if nbest.names not in ((), names):
            raise _other_names(path, 1, nbest.names, names)
    ids = [number for nbest in lists for number in nbest.sentence_ids]
    texts = (text for nbest in lists for text in nbest.texts)
    statistics = references.statistics(zip(ids, texts, strict=True))
    values = np.concatenate([nbest.values.reshape(-1, len(names)) for nbest in lists])
    starts = np.cumsum([0, *(len(nbest.texts) for nbest in lists)])
    sparse = [
        (start + row, name, value)
        for start, nbest in zip(starts.tolist(), lists, strict=False)
        for row, name, value in nbest.sparse
    ]
    all_names, all_values = with_sparse(names, values, sparse, nbest_paths[0])
    return make_pool(all_names, np.array(ids, np.int64), all_values, statistics, references.metric)


@dataclass
class _NBestList:
    """The data used from one n-best list; `values` has one row for each hypothesis."""

    names: tuple[str, ...]
    sentence_ids: list[int]
    texts: list[bytes]
    values: NDArray[np.float64]
    sparse: list[SparseValue]


def _read_list(path: StrPath, n_sentences: int) -> _NBestList:
    """Read a list whose lines all have the features of its first line, sparse ones aside.

    A line not splitting like the first one is passed to `parse_features`, to name its fault.
    """
    lines = enumerate(read_lines(path), start=1)
    ids: list[int] = []
    texts: list[bytes] = []
    tokens: list[bytes] = []
    sparse: list[SparseValue] = []
    layout: _Layout | None = None
    for line_number, line in lines:
        fields = line.split(BAR)
        if len(fields) > 3 and b"_" in fields[2]:
            fields[2], cut = cut_sparse(fields[2], path, line_number)
            line = BAR.join(fields)
            sparse += ((line_number - 1, name, value) for name, value in cut)
        if layout is None:
            layout = _Layout.of(parse_entry(line, path, line_number), path)
        found = fields[2].split() if len(fields) > 3 and fields[0].strip().isdigit() else []
        if not layout.fits(found):
            raise layout.fault(parse_entry(line, path, line_number), path)
        if len(fields[0]) > MAX_DIGITS:
            parse_entry(line, path, line_number)
        sentence_id = int(fields[0])
        if sentence_id >= n_sentences:
            raise InputError(
                path,
                line_number,
                f"sentence {sentence_id}",
                f"at most {n_sentences - 1}, as there are {n_sentences} references",
            )
        ids.append(sentence_id)
        texts.append(fields[1].strip(b" "))
        tokens.extend(layout.values(found))
    names = layout.names if layout else ()
    return _NBestList(names, ids, texts, _to_numbers(tokens, len(names), path), sparse)


@dataclass(frozen=True)
class _Layout:
    """The places of labels and values in the feature field of every line of a list."""

    names: tuple[str, ...]
    labels: tuple[bytes, ...]
    labels_of: Callable[[list[bytes]], tuple[bytes, ...]]
    values: Callable[[list[bytes]], tuple[bytes, ...]]
    n_tokens: int

    @classmethod
    def of(cls, entry: NBestEntry, path: StrPath) -> _Layout:
        """The layout of a first line."""
        names = _entry_names(entry, path)
        tokens = entry.features.split()
        is_label = [token.endswith(b"=") for token in tokens]
        where = [number for number, label in enumerate(is_label) if label]
        others = [number for number, label in enumerate(is_label) if not label]
        labels = tuple(tokens[number] for number in where)
        return cls(names, labels, _picker(where), _picker(others), len(tokens))

    def fits(self, tokens: list[bytes]) -> bool:
        """Whether a line has the same labels at the same places."""
        return len(tokens) == self.n_tokens and self.labels_of(tokens) == self.labels

    def fault(self, entry: NBestEntry, path: StrPath) -> InputError:
        """The error in a line that does not fit."""
        return _other_names(path, entry.line_number, _entry_names(entry, path), self.names)


def _picker(places: list[int]) -> Callable[[list[bytes]], tuple[bytes, ...]]:
    """A function taking the tokens at the places."""
    if len(places) < 2:
        return lambda tokens: tuple(tokens[place] for place in places)
    return cast(Callable[[list[bytes]], tuple[bytes, ...]], itemgetter(*places))


def _entry_names(entry: NBestEntry, path: StrPath) -> tuple[str, ...]:
    features = parse_features(entry, path)
    return column_names({name: len(values) for name, values in features.items()})


def _other_names(
    path: StrPath, line_number: int, found: tuple[str, ...], names: tuple[str, ...]
) -> InputError:
    return InputError(
        path,
        line_number,
        f"the features {', '.join(found)}",
        ", ".join(names),
        "All lines must have the features of the first one, in its order",
    )


def _to_numbers(tokens: list[bytes], n_columns: int, path: StrPath) -> NDArray[np.float64]:
    """Values of all lines, *Shape:* (n_lines, n_columns); NaN and infinity are refused."""
    try:
        flat = np.fromiter(map(float, tokens), np.float64, len(tokens))
    except ValueError:
        flat = np.array([_number_or_nan(token) for token in tokens])
    (bad,) = np.nonzero(~np.isfinite(flat))
    if len(bad):
        place = int(bad[0])
        line_number = place // n_columns + 1
        value = tokens[place].decode("utf-8", "replace")
        raise InputError(path, line_number, f"the value {value!r}", "a finite number")
    return flat.reshape(-1, max(1, n_columns))


def _number_or_nan(token: bytes) -> float:
    try:
        return float(token)
    except ValueError:
        return math.nan


def make_pool(
    names: tuple[str, ...],
    sentence_ids: NDArray[np.int64],
    features: NDArray[np.float64],
    statistics: Any,
    metric: Metric = BLEU,
) -> NBestPool:
    """Sort hypotheses by sentence and drop those equal in features and statistics (Data.cpp:52).

    Args:
        names: *Shape:* (n_features,).
        sentence_ids: *Shape:* (n,).
        features: *Shape:* (n, n_features).
        statistics: of the metric, *Shape:* (n, n_statistics).
        metric: what weights are tuned for.
    """
    table = np.column_stack([sentence_ids, features, statistics]).astype(np.float64) + 0.0
    hashes = _row_hashes(table)
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


def _row_hashes(table: NDArray[np.float64]) -> NDArray[np.uint64]:
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
