"""How sure a difference in BLEU is: approximate randomisation and the bootstrap, from statistics."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tuning.bleu_stats import Statistics, bleu


def approximate_randomisation(
    baseline: NDArray[np.int32], system: NDArray[np.int32], n_trials: int, seed: int
) -> float:
    """p-value of the difference in mean BLEU of two systems with several tuning runs each.

    Stratified as in MultEval (Clark et al. 2011, section 4.3): in each trial the outputs of a
    sentence, of all runs of both systems, are dealt anew to the systems. Counted with >=, and the
    observed difference is one of the trials: p = (c + 1) / (n + 1), so equal systems have p = 1.

    Args:
        baseline: BLEU statistics, *Shape:* (n_runs, n_sentences, 9).
        system: the same number of sentences, of runs any number.
        n_trials: random deals.
        seed: of the deals.
    """
    pooled = np.concatenate([baseline, system])
    n_baseline = len(baseline)
    observed = abs(_mean_differences(bleu(pooled.sum(axis=1)), n_baseline))
    by_sentence = np.ascontiguousarray(pooled.swapaxes(0, 1))
    found = abs(_mean_differences(bleu(_deal(by_sentence, n_trials, seed)), n_baseline))
    n_as_extreme = int((found >= observed - 1e-12).sum())
    return (n_as_extreme + 1) / (n_trials + 1)


@njit(cache=True)
def _deal(rows, n_trials, seed):  # type: ignore[no-untyped-def]
    """Summed statistics after dealing the outputs of each sentence anew.

    Args:
        rows: *Shape:* (n_sentences, n_runs, 9).
        n_trials: random deals.
        seed: of the deals.

    Returns:
        *Shape:* (n_trials, n_runs, 9).
    """
    np.random.seed(seed)
    n_sentences, n_runs, n_columns = rows.shape
    sums = np.zeros((n_trials, n_runs, n_columns), np.int64)
    deal = np.arange(n_runs)
    for trial in range(n_trials):
        for sentence in range(n_sentences):
            for slot in range(n_runs - 1, -1, -1):
                other = np.random.randint(0, slot + 1)
                deal[slot], deal[other] = deal[other], deal[slot]
                for k in range(n_columns):
                    sums[trial, slot, k] += rows[sentence, deal[slot], k]
    return sums


def _mean_differences(scores: NDArray[np.float64], n_baseline: int) -> NDArray[np.float64]:
    """Mean of the system's scores minus that of the baseline's, *Shape:* (..., n_runs) -> (...)."""
    means = scores[..., n_baseline:].mean(axis=-1) - scores[..., :n_baseline].mean(axis=-1)
    return np.asarray(means)


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
