"""Optimising on the tuning files of Moses: a pool from features.dat and scores.dat, a start from init.opt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.tuning_data import DataBlock, read_features, read_init_opt, read_scores
from tuning.metrics.bleu import N_STATISTICS, Statistics
from tuning.optimisers.by_name import OptimizerName, load_optimizer
from tuning.optimisers.contract import OptimizerConfig, OptimizerResult
from tuning.optimisers.nbest_pool import NBestPool, SparseValue, is_sparse, make_pool, with_sparse


def optimize_files(
    features: Sequence[Path],
    scores: Sequence[Path],
    init: Path,
    optimizer: OptimizerName,
    config: OptimizerConfig,
    seed: int = 1,
    jobs: int = 1,
) -> OptimizerResult:
    """Find weights with a high BLEU on the hypotheses written by Moses's extractor.

    There are a features.dat and a scores.dat for each iteration; `init` is init.opt, the start. The same seed
    gives the same weights, with any number of jobs, which are threads.

    Raises:
        InputError: a file is malformed.
        ConfigError: the files are not in pairs, or a setting names no feature.
    """
    if len(features) != len(scores):
        raise ConfigError(
            f"{len(features)} --features and {len(scores)} --scores; they go in pairs"
        )
    pool = read_moses_pool(features, scores)
    start = read_start(init, pool)
    return load_optimizer(optimizer)(pool, start[None], config, seed, jobs)


def read_moses_pool(
    features_paths: Sequence[StrPath], scores_paths: Sequence[StrPath]
) -> NBestPool:
    """Pool pairs of features.dat and scores.dat, by sentence, in whatever order they are.

    Raises:
        InputError: a file is malformed, two files do not belong together, or iterations have other
            features than the first one.
    """
    names: tuple[str, ...] | None = None
    ids: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    statistics: list[Statistics] = []
    sparse: list[SparseValue] = []
    n_rows = 0
    for features_path, scores_path in zip(features_paths, scores_paths, strict=True):
        scores = _score_blocks(scores_path)
        for block in read_features(features_path):
            names = names or block.names
            _check_names(block, names, features_path)
            statistics.append(_statistics(block, scores, features_path, scores_path))
            ids.append(np.full(len(block.values), block.sentence_id))
            values.append(block.values)
            sparse += ((n_rows + row, name, value) for row, name, value in block.sparse)
            n_rows += len(block.values)
        for left in scores.values():
            found = f"scores of sentence {left.sentence_id}"
            raise InputError(scores_path, left.line_number, found, f"none, as in {features_path}")
    if names is None:
        raise InputError(features_paths[0], None, "no sentence", "a features.dat")
    all_names, all_values = with_sparse(names, np.concatenate(values), sparse, features_paths[0])
    return make_pool(all_names, np.concatenate(ids), all_values, np.concatenate(statistics))


def _score_blocks(path: StrPath) -> dict[int, DataBlock]:
    blocks: dict[int, DataBlock] = {}
    for block in read_scores(path):
        if block.sentence_id in blocks:
            found = f"sentence {block.sentence_id} again"
            raise InputError(path, block.line_number, found, "each sentence once")
        if block.names != ("BLEU",) or block.values.shape[1] != N_STATISTICS or block.sparse:
            found = f"{block.values.shape[1]} numbers of {' '.join(block.names) or 'no score'}"
            raise InputError(path, block.line_number, found, f"{N_STATISTICS} of BLEU")
        _check_counts(block, path)
        blocks[block.sentence_id] = block
    return blocks


def _check_counts(block: DataBlock, path: StrPath) -> None:
    (bad,) = np.nonzero(((block.values < 0) | (block.values != np.floor(block.values))).any(axis=1))
    if len(bad):
        row = " ".join(f"{value:g}" for value in block.values[bad[0]])
        line_number = block.line_number + 1 + int(bad[0])
        raise InputError(path, line_number, f"the counts {row}", "whole numbers from 0")


def _check_names(block: DataBlock, names: tuple[str, ...], path: StrPath) -> None:
    n_columns = block.values.shape[1]
    if len(block.names) != n_columns:
        found = f"{len(block.names)} names of {n_columns} columns"
        raise InputError(path, block.line_number, found, "as many names as columns")
    if block.names != names:
        found, expected = " ".join(block.names), " ".join(names)
        raise InputError(path, block.line_number, f"the features {found}", expected)


def _statistics(
    block: DataBlock, scores: dict[int, DataBlock], features_path: StrPath, scores_path: StrPath
) -> Statistics:
    """Take the statistics of a block's hypotheses out of the scores."""
    score = scores.pop(block.sentence_id, None)
    if score is None:
        found = f"sentence {block.sentence_id}"
        expected = f"one that {scores_path} has, and once"
        raise InputError(features_path, block.line_number, found, expected)
    if len(score.values) != len(block.values):
        found = f"{len(score.values)} rows for sentence {block.sentence_id}"
        expected = f"{len(block.values)}, as in {features_path}:{block.line_number}"
        raise InputError(scores_path, score.line_number, found, expected)
    return score.values.astype(np.int32)


def read_start(path: StrPath, pool: NBestPool) -> NDArray[np.float64]:
    """The start of an init.opt for a pool, *Shape:* (n_features,); sparse features start at 0.

    InputError if the file is malformed or has another number of columns than the pool.
    """
    start = read_init_opt(path)[0]
    n_sparse = sum(map(is_sparse, pool.names))
    n_dense = len(pool.names) - n_sparse
    if len(start) != n_dense:
        raise InputError(path, 1, f"{len(start)} weights", f"{n_dense}, one for each feature")
    return np.append(start, np.zeros(n_sparse))
