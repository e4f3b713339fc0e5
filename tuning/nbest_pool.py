"""A pool of hypotheses: features and BLEU statistics of all n-best lists of a tuning run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import InputError
from moses_bridge.formats.nbest import parse_features, read_nbest
from moses_bridge.formats.tuning_data import read_features, read_scores
from moses_bridge.textio import StrPath
from tuning.bleu_stats import N_STATISTICS, References, Statistics


@dataclass(frozen=True)
class NBestPool:
    """Hypotheses, those of a sentence together.

    Attributes:
        names: one name a feature column, as in "TranslationModel0_2".
        features: *Shape:* (n_hypotheses, n_features).
        statistics: *Shape:* (n_hypotheses, 9).
        sentence_ids: of the sentences that have hypotheses, rising, *Shape:* (n_sentences,).
        offsets: first hypothesis of each sentence, and the number of hypotheses at the end,
            *Shape:* (n_sentences + 1,).
    """

    names: tuple[str, ...]
    features: NDArray[np.float64]
    statistics: Statistics
    sentence_ids: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.features)

    def best(self, weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """The first hypothesis with the highest weighted score, of each sentence."""
        scores = self.features @ weights
        top = np.maximum.reduceat(scores, self.offsets[:-1])
        is_top = np.flatnonzero(scores == np.repeat(top, np.diff(self.offsets)))
        places = np.searchsorted(is_top, self.offsets[:-1])
        return np.asarray(is_top[places], np.int64)

    def statistics_of(self, weights: NDArray[np.float64]) -> Statistics:
        """Summed statistics of the best hypotheses, *Shape:* (9,)."""
        return np.asarray(self.statistics[self.best(weights)].sum(axis=0))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Columns that are the same for all hypotheses of each sentence, *Shape:* (n_features,)."""
        low = np.minimum.reduceat(self.features, self.offsets[:-1])
        high = np.maximum.reduceat(self.features, self.offsets[:-1])
        return np.asarray((low == high).all(axis=0))


def read_pool(nbest_paths: Sequence[StrPath], references: References) -> NBestPool:
    """Pool the n-best lists of several iterations.

    Raises:
        InputError: a line is malformed, has other features than the first one, or names a sentence
            that has no reference.
    """
    names: tuple[str, ...] | None = None
    ids: list[int] = []
    rows: list[tuple[float, ...]] = []
    texts: list[bytes] = []
    for path in nbest_paths:
        for entry in read_nbest(path):
            features = parse_features(entry, path)
            found = column_names({name: len(values) for name, values in features.items()})
            names = names or found
            if found != names:
                raise InputError(
                    path, entry.line_number, f"features {found}", f"{names}", "as in the first line"
                )
            if entry.sentence_id >= len(references):
                raise InputError(
                    path,
                    entry.line_number,
                    f"sentence {entry.sentence_id}",
                    f"at most {len(references) - 1}, as there are {len(references)} references",
                )
            ids.append(entry.sentence_id)
            rows.append(tuple(value for values in features.values() for value in values))
            texts.append(entry.words)
    if names is None:
        raise InputError(nbest_paths[0], None, "no hypothesis", "an n-best list")
    statistics = references.statistics(zip(ids, texts, strict=True))
    return make_pool(names, np.array(ids), np.array(rows), statistics)


def read_moses_pool(
    features_paths: Sequence[StrPath], scores_paths: Sequence[StrPath]
) -> NBestPool:
    """Pool pairs of features.dat and scores.dat.

    Raises:
        InputError: a file is malformed, or two files do not belong together.
    """
    names: tuple[str, ...] | None = None
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]] = []
    for features_path, scores_path in zip(features_paths, scores_paths, strict=True):
        scores = {block.sentence_id: block for block in read_scores(scores_path)}
        for block in read_features(features_path):
            names = names or block.names
            if block.names != names:
                raise InputError(features_path, block.line_number, f"{block.names}", f"{names}")
            score = scores.get(block.sentence_id)
            if score is None or score.values.shape != (len(block.values), N_STATISTICS):
                raise InputError(
                    scores_path,
                    score.line_number if score else None,
                    f"no {len(block.values)} rows of {N_STATISTICS} for sentence {block.sentence_id}",
                    f"as many as in {features_path}",
                )
            ids = np.full(len(block.values), block.sentence_id)
            parts.append((ids, block.values, score.values))
    if names is None:
        raise InputError(features_paths[0], None, "no sentence", "a features.dat")
    ids, values, statistics = (np.concatenate(column) for column in zip(*parts, strict=True))
    return make_pool(names, ids, values, statistics.astype(np.int64))


def make_pool(
    names: tuple[str, ...],
    sentence_ids: NDArray[np.int64],
    features: NDArray[np.float64],
    statistics: Statistics,
) -> NBestPool:
    """Sort hypotheses by sentence and drop those equal in features and statistics (Data.cpp:52).

    Args:
        names: *Shape:* (n_features,).
        sentence_ids: *Shape:* (n,).
        features: *Shape:* (n, n_features).
        statistics: *Shape:* (n, 9).
    """
    table = np.column_stack([sentence_ids, features, statistics]).astype(np.float64) + 0.0
    packed = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    _, first = np.unique(packed, return_index=True)
    kept = np.sort(first)
    kept = kept[np.argsort(sentence_ids[kept], kind="stable")]
    distinct, starts = np.unique(sentence_ids[kept], return_index=True)
    offsets = np.append(starts, len(kept))
    return NBestPool(
        names, np.ascontiguousarray(features[kept]), statistics[kept], distinct, offsets
    )


def merge_pools(first: NBestPool, second: NBestPool) -> NBestPool:
    """One pool of two, without hypotheses that are in both.

    Raises:
        ValueError: they have other features.
    """
    if first.names != second.names:
        raise ValueError(f"pools with other features: {first.names} and {second.names}")
    pools = (first, second)
    ids = [np.repeat(pool.sentence_ids, np.diff(pool.offsets)) for pool in pools]
    return make_pool(
        first.names,
        np.concatenate(ids),
        np.concatenate([pool.features for pool in pools]),
        np.concatenate([pool.statistics for pool in pools]),
    )


def column_names(sizes: dict[str, int]) -> tuple[str, ...]:
    """One name for each value, numbered from 0 as Moses does: LM0_0, TranslationModel0_3."""
    return tuple(f"{name}_{number}" for name, size in sizes.items() for number in range(size))


def grouped_weights(columns: Mapping[str, float]) -> dict[str, list[float]]:
    """Weights by feature, from weights by column name: the reverse of `column_names`."""
    grouped: dict[str, list[float]] = {}
    for column, weight in columns.items():
        grouped.setdefault(column.rpartition("_")[0], []).append(weight)
    return grouped
