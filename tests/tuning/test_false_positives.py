"""Approximate randomisation calls equal systems different as often as it says it does."""

from __future__ import annotations

import numpy as np

from tuning.bleu_stats import Statistics
from tuning.significance import approximate_randomisation


def output(rng: np.random.Generator, lens: Statistics) -> Statistics:
    """One output of a system that gets each n-gram right with a fixed probability: (1, n, 9)."""
    rows = np.empty((1, len(lens), 9), np.int32)
    matches = lens
    for order in range(4):
        matches = rng.binomial(np.minimum(matches, lens - order), 0.75).astype(np.int32)
        rows[0, :, 2 * order], rows[0, :, 2 * order + 1] = matches, lens - order
    rows[0, :, 8] = lens
    return rows


def test_one_pair_of_equal_systems_in_twenty_is_significant() -> None:
    rng = np.random.default_rng(1)
    p_values = []
    for seed in range(1000):
        lens = rng.integers(8, 30, 60).astype(np.int32)
        pair = output(rng, lens), output(rng, lens)
        p_values.append(approximate_randomisation(*pair, n_trials=299, seed=seed))
    assert 0.03 <= np.mean(np.array(p_values) < 0.05) <= 0.07
