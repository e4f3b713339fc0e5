"""Significance: exact small cases, equal systems, and the false positive rate of simulated ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tuning.bleu_stats import bleu
from tuning.significance import approximate_randomisation, bootstrap_deviation


def simulated(rng: np.random.Generator, n_runs: int, n_sentences: int) -> np.ndarray:
    """Statistics of outputs whose quality has the same distribution."""
    length = rng.integers(8, 30, n_sentences)
    rows = np.empty((n_runs, n_sentences, 9), np.int64)
    for run in range(n_runs):
        matches = length
        for order in range(4):
            total = length - order
            matches = rng.binomial(np.minimum(matches, total), 0.75)
            rows[run, :, 2 * order] = matches
            rows[run, :, 2 * order + 1] = total
        rows[run, :, 8] = length
    return rows


def test_a_system_against_itself_has_p_1() -> None:
    statistics = simulated(np.random.default_rng(1), 3, 40)
    assert approximate_randomisation(statistics, statistics.copy(), 200, seed=1) == 1.0


def test_two_sentences_against_all_deals() -> None:
    """One run each: four deals are equally likely, so p tends to the share of the extreme ones."""
    rng = np.random.default_rng(5)
    one, other = simulated(rng, 1, 2), simulated(rng, 1, 2)
    pooled = np.concatenate([one, other])
    observed = abs(bleu(one.sum(axis=1)) - bleu(other.sum(axis=1)))[0]
    extreme = 0
    for deal in itertools.product((0, 1), repeat=2):
        first = sum(pooled[run, sentence] for sentence, run in enumerate(deal))
        second = sum(pooled[1 - run, sentence] for sentence, run in enumerate(deal))
        extreme += abs(float(bleu(first) - bleu(second))) >= observed - 1e-12
    found = approximate_randomisation(one, other, 4000, seed=2)
    assert found == pytest.approx(extreme / 4, abs=0.03)


def test_a_much_better_system_is_significant() -> None:
    rng = np.random.default_rng(3)
    worse = simulated(rng, 3, 100)
    better = worse.copy()
    better[:, :, 0:8:2] = worse[:, :, 1:8:2]
    assert approximate_randomisation(worse, better, 200, seed=1) == pytest.approx(1 / 201)


def test_equal_systems_are_seldom_significant() -> None:
    rng = np.random.default_rng(11)
    p_values = [
        approximate_randomisation(simulated(rng, 1, 60), simulated(rng, 1, 60), 99, seed)
        for seed in range(200)
    ]
    assert 0.005 <= np.mean(np.array(p_values) <= 0.05) <= 0.11


def test_one_run_against_two_is_dealt_like_that() -> None:
    """One sentence, three outputs, one of them the baseline's: three deals are equally likely."""
    rows = np.array([[[9, 10, 8, 9, 7, 8, m, 7, 10]] for m in (1, 5, 6)], np.int32)
    values = bleu(rows[:, 0])
    gaps = [abs(np.delete(values, k).mean() - values[k]) for k in range(3)]
    expected = np.mean([gap >= gaps[0] - 1e-12 for gap in gaps])
    found = approximate_randomisation(rows[:1], rows[1:], 3000, seed=3)
    assert found == pytest.approx(expected, abs=0.04)


def test_the_seed_decides() -> None:
    rng = np.random.default_rng(4)
    one, other = simulated(rng, 2, 30), simulated(rng, 2, 30)
    assert approximate_randomisation(one, other, 50, 7) == approximate_randomisation(
        one, other, 50, 7
    )


def test_bootstrap_deviation_of_equal_sentences_is_zero() -> None:
    statistics = np.tile(np.array([8, 10, 6, 9, 4, 8, 3, 7, 10]), (20, 1))
    assert bootstrap_deviation(statistics, 50, seed=1) == pytest.approx(0, abs=1e-9)


def test_bootstrap_deviation_shrinks_with_the_text() -> None:
    rng = np.random.default_rng(6)
    small = bootstrap_deviation(simulated(rng, 1, 50)[0], 400, seed=1)
    large = bootstrap_deviation(simulated(rng, 1, 800)[0], 400, seed=1)
    assert large == pytest.approx(small / 4, rel=0.35)
