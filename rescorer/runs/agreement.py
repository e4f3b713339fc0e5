"""Differences between scores without the softmax denominator and exact ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.formats.phrase_table import alignment_column, read_blocks
from rescorer.contract.architectures import load
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import Scorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.layers.output_layer import OutputLayer
from rescorer.models.model_directory import load_model

# A sample, so that the comparison takes seconds whatever the length of the table.
SAMPLE_ROWS = 2000
BLOCK_ROWS = 1000


@dataclass(frozen=True)
class Agreement:
    """Exact and unnormalised scores of n_pairs phrase pairs compared, natural log.

    The mean |log Z| is over all target prefixes, the mean absolute difference and Spearman's rank correlation
    (NaN where all values of one kind are equal) are of log p(target | source).
    """

    n_pairs: int
    mean_abs_log_total: float
    mean_difference: float
    rank_correlation: float

    def __str__(self) -> str:
        return (
            f"{self.n_pairs:,} pairs without the denominator Z against the exact score:"
            f" mean |log Z| {self.mean_abs_log_total:.4f}, mean difference of log p"
            f" {self.mean_difference:.4f} nats, Spearman's correlation {self.rank_correlation:.5f}"
        )


class _Layered(Scorer, Protocol):
    layer: OutputLayer


class _Recorder:
    def __init__(self, layer: OutputLayer) -> None:
        self.layer = layer
        self.recorded: list[NDArray[np.float32]] = []

    def log_z(self, rows: Tensor) -> Tensor:
        """See `OutputLayer`."""
        result = self.layer.log_z(rows)
        self.recorded.append(result.cpu().numpy())
        return result

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        """See `OutputLayer`."""
        return self.layer.log_probs(rows, log_z, words)


def agreement(model: TrainedModel[Any], batch: Batch, compute: Compute) -> Agreement:
    """Score pairs both ways with a model that has a softmax output layer."""
    batch = model.as_read(batch)
    new_scorer = load(model.architecture).scorer
    exact = cast(_Layered, new_scorer(model, replace(compute, unnormalized=False)))
    exact.layer = recorder = _Recorder(exact.layer)
    log_probs = exact.values(batch)
    others = new_scorer(model, replace(compute, unnormalized=True)).values(batch)
    return Agreement(
        len(batch),
        float(np.abs(np.concatenate(recorder.recorded)).mean()),
        float(np.abs(log_probs - others).mean()),
        _rank_correlation(log_probs, others),
    )


def _rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Spearman's; NaN if all values of one argument are equal."""
    from scipy.stats import spearmanr  # here, since a column without it needs no extra

    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(spearmanr(one, other).statistic)


def table_agreement(
    directory: Path, table: str, seed: int, compute: Compute, trust_code: bool = False
) -> Agreement:
    """Score randomly drawn rows of a phrase table both ways.

    Raises:
        InputError: the directory is not a whole model, or the table is malformed.
    """
    model = load_model(directory, trust_code)
    return agreement(model, sampled_rows(table, SAMPLE_ROWS, seed), compute)


def sampled_rows(table: str, n_rows: int, seed: int) -> Batch:
    """Draw rows at random from a table, reading it once.

    Reservoir sampling by blocks: each row gets a random number; the lowest ones are kept.
    """
    rng = np.random.default_rng(seed)
    keys, rows = np.empty(0), list[tuple[bytes, bytes, bytes]]()
    for block in read_blocks(table, BLOCK_ROWS):
        keys = np.concatenate([keys, rng.random(len(block))])
        rows += zip(block.sources, block.targets, map(alignment_column, block.lines), strict=True)
        kept = np.argsort(keys)[:n_rows]
        keys, rows = keys[kept], [rows[row] for row in kept]
    return Batch(*(list(column) for column in zip(*rows, strict=True)))
