"""How far scores without the softmax's denominator are from the exact ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor

from moses_bridge.formats.phrase_table import read_blocks
from rescorer.model_directory import LoadedModel, load_model
from rescorer.tries.scoring import EncDecScorer, UnnormalizedScorer

BLOCK_ROWS = 1000
SAMPLE_ROWS = 2000


@dataclass(frozen=True)
class Agreement:
    """Exact against unnormalised scores.

    Attributes:
        n_pairs: compared phrase pairs.
        mean_abs_log_total: mean |log Z| over all target prefixes, natural log.
        mean_difference: mean absolute difference of log p(target | source).
        rank_correlation: Spearman's, of log p(target | source).
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


class _Recorder(EncDecScorer):
    """Keeps the log Z of everything it scores."""

    log_totals: list[NDArray[np.float32]]

    def _log_totals(self, factors: Tensor) -> Tensor:
        result = super()._log_totals(factors)
        self.log_totals.append(result.cpu().numpy())
        return result


def agreement(model: LoadedModel, sources: list[bytes], targets: list[bytes]) -> Agreement:
    """Score pairs both ways.

    Args:
        model: an encoder-decoder.
        sources: one source for each pair.
        targets: its target.
    """
    network, vocabularies = model.encoder_decoder()
    exact = _Recorder(network, *vocabularies)
    exact.log_totals = []
    log_probs = exact.log_probs(sources, targets)
    others = UnnormalizedScorer(network, *vocabularies).log_probs(sources, targets)
    return Agreement(
        len(targets),
        float(np.abs(np.concatenate(exact.log_totals)).mean()),
        float(np.abs(log_probs - others).mean()),
        float(spearmanr(log_probs, others).statistic),
    )


def table_agreement(directory: Path, table: str, seed: int) -> Agreement:
    """Score rows of a table, drawn at random, both ways.

    Args:
        directory: of the model.
        table: a phrase table.
        seed: which rows.

    Raises:
        InputError: the directory is not a whole model, or the table is malformed.
    """
    return agreement(load_model(directory), *sampled_rows(table, SAMPLE_ROWS, seed))


def sampled_rows(table: str, n_rows: int, seed: int) -> tuple[list[bytes], list[bytes]]:
    """Sources and targets of rows drawn at random from a table, which is read once.

    Reservoir sampling by blocks: each row has a random number, and the lowest ones are kept.
    """
    rng = np.random.default_rng(seed)
    keys, rows = np.empty(0), list[tuple[bytes, bytes]]()
    for block in read_blocks(table, BLOCK_ROWS):
        keys = np.concatenate([keys, rng.random(len(block))])
        rows += zip(block.sources, block.targets, strict=True)
        kept = np.argsort(keys)[:n_rows]
        keys, rows = keys[kept], [rows[row] for row in kept]
    return [source for source, _ in rows], [target for _, target in rows]
