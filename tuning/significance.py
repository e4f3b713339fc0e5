"""How sure a difference in BLEU is: approximate randomisation and the bootstrap, from statistics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuning.bleu_stats import Statistics, bleu

TRIALS_AT_ONCE = 200


def approximate_randomisation(
    baseline: NDArray[np.int32], system: NDArray[np.int32], n_trials: int, seed: int
) -> float:
    """p-value of the difference in mean BLEU of two systems with several tuning runs each.

    Stratified as in MultEval (Clark et al. 2011, section 4.3): in each trial the outputs of a
    sentence, of all runs of both systems, are dealt anew to the systems. Counted with >=, and the
    observed difference is one of the trials: p = (c + 1) / (n + 1), so equal systems have p = 1.

    Args:
        baseline: BLEU statistics, *Shape:* (n_runs, n_sentences, 9).
        system: the same number of runs and sentences.
        n_trials: random deals.
        seed: of the deals.
    """
    pooled = np.concatenate([baseline, system])
    n_baseline, n_runs, n_sentences = len(baseline), len(pooled), pooled.shape[1]
    observed = abs(_mean_difference(bleu(pooled.sum(axis=1)), n_baseline))
    rng = np.random.default_rng(seed)
    columns = np.arange(n_sentences)
    n_as_extreme = 0
    for _ in range(n_trials):
        deal = rng.permuted(np.tile(np.arange(n_runs), (n_sentences, 1)), axis=1).T
        sums = pooled[deal, columns].sum(axis=1)
        n_as_extreme += abs(_mean_difference(bleu(sums), n_baseline)) >= observed - 1e-12
    return (n_as_extreme + 1) / (n_trials + 1)


def _mean_difference(scores: NDArray[np.float64], n_baseline: int) -> float:
    return float(scores[n_baseline:].mean() - scores[:n_baseline].mean())


def bootstrap_deviation(statistics: Statistics, n_samples: int, seed: int) -> float:
    """Standard deviation of BLEU (0 to 100) over resampled test sets (Koehn 2004).

    Args:
        statistics: of one output, *Shape:* (n_sentences, 9).
        n_samples: test sets drawn with replacement.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    n_sentences = len(statistics)
    counts = rng.multinomial(n_sentences, np.full(n_sentences, 1 / n_sentences), n_samples)
    return float(bleu(counts @ statistics).std(ddof=1))
