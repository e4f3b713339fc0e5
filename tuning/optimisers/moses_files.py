"""Optimising on the tuning files of Moses: features.dat, scores.dat and init.opt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moses_bridge.base.errors import ConfigError
from tuning.optimisers.by_name import OptimizerName, load_optimizer
from tuning.optimisers.contract import OptimizerConfig, OptimizerResult
from tuning.pools.moses_pool import read_moses_pool, read_start


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

    Args:
        features: a features.dat for each iteration.
        scores: the scores.dat of each, in the same order.
        init: init.opt with the weights to start from.
        optimizer: the optimiser.
        config: settings.
        seed: the same seed gives the same weights, with any number of jobs.
        jobs: threads.

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
