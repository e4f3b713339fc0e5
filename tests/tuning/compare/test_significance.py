"""Significance: variances by hand, and how often systems that do not differ are called different."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammainc
from scipy.stats import nct, t, ttest_ind

from tuning.compare.significance import Difference, compare_outputs, holm, jackknife_error
from tuning.compare.system_outputs import SystemOutputs, bootstrap_deviation
from tuning.metrics.bleu import bleu

N_RUNS = 3


def output(
    rng: np.random.Generator, lens: NDArray[np.int32], quality: float | NDArray[np.float64] = 0.75
) -> NDArray[np.int32]:
    """Statistics of an output that gets each n-gram right with a fixed probability: (n_sentences, 9)."""
    rows = np.empty((len(lens), 9), np.int32)
    matches = lens
    for order in range(4):
        matches = rng.binomial(np.minimum(matches, lens - order), quality).astype(np.int32)
        rows[:, 2 * order], rows[:, 2 * order + 1] = matches, lens - order
    rows[:, 8] = lens
    return rows


def simulated(
    rng: np.random.Generator, lens: NDArray[np.int32], own_share: float, n_runs: int = N_RUNS
) -> SystemOutputs:
    """Runs that differ from the output of their system in a share of the sentences."""
    common = output(rng, lens)
    runs = [
        np.where((rng.random(len(lens)) < own_share)[:, None], output(rng, lens), common)
        for _ in range(n_runs)
    ]
    return SystemOutputs(np.array(runs), [0] * n_runs)


def drawn_lengths(rng: np.random.Generator, n_sentences: int = 100) -> NDArray[np.int32]:
    return rng.integers(8, 30, n_sentences).astype(np.int32)


def pooled_p_value(
    baseline: SystemOutputs, system: SystemOutputs, rng: np.random.Generator, n_deals: int = 199
) -> float:
    """What this project did before: outputs of all runs dealt freely (Clark et al. 2011, section 4.3)."""
    pooled = np.concatenate([baseline.statistics, system.statistics])
    n_all, n_sentences = pooled.shape[:2]

    def gap(dealt: NDArray[np.int32]) -> float:
        scores = bleu(dealt.sum(axis=1))
        return abs(float(scores[:N_RUNS].mean() - scores[N_RUNS:].mean()))

    observed = gap(pooled)
    n_extreme = 0
    for _ in range(n_deals):
        deals = rng.permuted(np.tile(np.arange(n_all), (n_sentences, 1)), axis=1).T
        n_extreme += gap(pooled[deals, np.arange(n_sentences)]) >= observed - 1e-12
    return (n_extreme + 1) / (n_deals + 1)


@pytest.mark.parametrize("own_share", [1.0, 0.5, 0.25, 0.1, 0.0])
def test_systems_that_do_not_differ_are_seldom_called_different(own_share: float) -> None:
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(1000):
        lens = drawn_lengths(rng)
        pair = simulated(rng, lens, own_share), simulated(rng, lens, own_share)
        p_values.append(compare_outputs(*pair).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.07


@pytest.mark.slow
def test_dealing_all_runs_freely_called_them_different_far_too_often() -> None:
    """Why the rule was given up: where runs share nine sentences in ten, a third of the p is below 0.05."""
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(200):
        lens = drawn_lengths(rng)
        pair = simulated(rng, lens, 0.1), simulated(rng, lens, 0.1)
        p_values.append(pooled_p_value(*pair, rng))
    assert np.mean(np.array(p_values) < 0.05) > 0.2


@pytest.mark.parametrize("run_sd", [0.003, 0.03])
def test_so_are_systems_of_one_text_whose_runs_differ_in_quality(run_sd: float) -> None:
    """A run gets a share of all sentences right or wrong, the share drawn for the run: only runs vary."""
    rng = np.random.default_rng(2)
    lens = drawn_lengths(rng)
    common = output(rng, lens)

    def system() -> SystemOutputs:
        runs = np.tile(common, (N_RUNS, 1, 1))
        for run, effect in zip(runs, rng.normal(0, run_sd, N_RUNS), strict=True):
            chosen = rng.random(len(lens)) < abs(effect)
            run[chosen, 0:8:2] = run[chosen, 1:8:2] if effect > 0 else 0
        return SystemOutputs(runs, [0] * N_RUNS)

    p_values = [compare_outputs(system(), system()).p_value for _ in range(1000)]
    assert np.mean(np.array(p_values) < 0.05) <= 0.07


def test_a_difference_of_the_size_that_is_promised_is_found_in_80_percent() -> None:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(400):
        lens = drawn_lengths(rng, 300)
        found.append(compare_outputs(simulated(rng, lens, 0.1), simulated(rng, lens, 0.1)))
    size = float(np.mean([difference.smallest_found for difference in found]))
    p_values = [replace(each, delta=each.delta + size).p_value for each in found]
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.8, abs=0.06)


def test_the_size_that_is_promised_has_the_power_of_a_t_test() -> None:
    """By scipy's noncentral t, one-sided, since the other side is as good as never reached."""
    difference = Difference(0.0, 0.04, 0.05, 7.0)
    shift = difference.smallest_found / 0.3
    assert nct.sf(t.ppf(0.975, 7), 7, shift) == pytest.approx(0.8)


def test_the_interval_ends_where_p_is_5_percent() -> None:
    rng = np.random.default_rng(4)
    lens = drawn_lengths(rng)
    difference = compare_outputs(simulated(rng, lens, 0.3), simulated(rng, lens, 0.3))
    for end in difference.interval:
        moved = replace(difference, delta=difference.delta - end)
        assert moved.p_value == pytest.approx(0.05)


def test_a_system_against_itself_has_p_1() -> None:
    rng = np.random.default_rng(5)
    system = simulated(rng, drawn_lengths(rng), 0.3)
    assert compare_outputs(system, system).p_value == 1.0
    same_runs = SystemOutputs(np.repeat(system.statistics[:1], 3, axis=0), [0, 0, 0])
    against_itself = compare_outputs(same_runs, same_runs)
    assert (against_itself.p_value, against_itself.smallest_found) == (1.0, 0.0)


def test_a_much_better_system_is_significant_and_its_delta_positive() -> None:
    rng = np.random.default_rng(6)
    worse = simulated(rng, drawn_lengths(rng), 0.2)
    statistics = worse.statistics.copy()
    statistics[:, :, 0:8:2] = statistics[:, :, 1:8:2]
    better = SystemOutputs(statistics, worse.groups)
    difference = compare_outputs(worse, better)
    expected = 100 - bleu(worse.statistics.sum(axis=1)).mean()
    assert difference.delta == pytest.approx(expected)
    assert difference.p_value < 1e-6
    assert compare_outputs(better, worse).delta == pytest.approx(-expected)


def test_where_all_sentences_are_alike_it_is_welchs_test() -> None:
    """Without a variance over texts only runs count: scipy's t-test for unequal variances."""
    rng = np.random.default_rng(7)
    rows = np.array([[8, 10, m, 9, m - 1, 8, m - 2, 7, 10] for m in rng.integers(4, 9, 7)])
    runs = np.repeat(rows[:, None].astype(np.int32), 40, axis=1)
    one, other = SystemOutputs(runs[:3], [0] * 3), SystemOutputs(runs[3:], [0] * 4)
    scores = bleu(runs.sum(axis=1))
    expected = ttest_ind(scores[:3], scores[3:], equal_var=False)
    found = compare_outputs(one, other)
    assert found.text_variance == pytest.approx(0, abs=1e-15)
    assert found.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert found.interval == pytest.approx((-interval.high, -interval.low))


def test_the_variance_over_texts_is_near_the_bootstraps() -> None:
    rng = np.random.default_rng(8)
    lens = drawn_lengths(rng, 400)
    one, other = simulated(rng, lens, 0.2), simulated(rng, lens, 0.2)
    counts = rng.multinomial(400, np.full(400, 1 / 400), 2000)
    gaps = [
        bleu(np.einsum("tn,rnk->trk", counts, system.statistics)).mean(axis=1)
        for system in (one, other)
    ]
    deviation = float((gaps[1] - gaps[0]).std(ddof=1))
    assert compare_outputs(one, other).text_variance ** 0.5 == pytest.approx(deviation, rel=0.08)


def test_the_variance_over_texts_is_the_jackknifes_by_its_definition() -> None:
    """(n - 1) / n times the sum of squares of what n texts without one sentence each give, about their mean."""
    rng = np.random.default_rng(11)
    lens = drawn_lengths(rng, 5)
    systems = simulated(rng, lens, 0.5), simulated(rng, lens, 0.5, 2)
    deltas = []
    for left_out in range(5):
        means = [
            np.mean(
                [bleu(np.delete(run, left_out, axis=0).sum(axis=0)) for run in system.statistics]
            )
            for system in systems
        ]
        deltas.append(means[1] - means[0])
    squares = sum((delta - np.mean(deltas)) ** 2 for delta in deltas)
    assert compare_outputs(*systems).text_variance == pytest.approx(4 / 5 * squares)


def test_the_error_of_two_outputs_is_the_jackknifes_by_its_definition() -> None:
    """The same sum for one output each, and its root."""
    rng = np.random.default_rng(17)
    lens = drawn_lengths(rng, 6)
    first, second = output(rng, lens), output(rng, lens, 0.9)
    deltas = [
        bleu(np.delete(second, i, axis=0).sum(axis=0))
        - bleu(np.delete(first, i, axis=0).sum(axis=0))
        for i in range(6)
    ]
    squares = sum((delta - np.mean(deltas)) ** 2 for delta in deltas)
    assert jackknife_error(first, second) == pytest.approx((5 / 6 * squares) ** 0.5)
    halves = jackknife_error(first / 2, second / 2)
    assert halves == pytest.approx(jackknife_error(first, second))


def test_where_all_runs_are_alike_the_sentences_alone_give_the_degrees_of_freedom() -> None:
    rng = np.random.default_rng(12)
    lens = drawn_lengths(rng, 20)
    one, other = (simulated(rng, lens, 0.0) for _ in range(2))
    difference = compare_outputs(one, other)
    assert difference.run_variance == pytest.approx(0, abs=1e-20)
    assert difference.degrees_of_freedom == pytest.approx(19)


def test_degrees_of_freedom_are_satterthwaites_of_text_and_of_all_runs() -> None:
    """The runs' variance has Welch's; in the sum it is its upper 60% limit.

    The limit by its definition: 40% of chi squared are below the value that it is divided by.
    """
    rng = np.random.default_rng(14)
    lens = drawn_lengths(rng, 400)
    one, other = (simulated(rng, lens, 0.05) for _ in range(2))
    difference = compare_outputs(one, other)
    runs = [np.var(bleu(each.statistics.sum(axis=1)), ddof=1) / 3 for each in (one, other)]
    text = difference.text_variance
    of_runs = sum(runs) ** 2 / (sum(run**2 for run in runs) / 2)
    lowest = brentq(lambda value: gammainc(of_runs / 2, value / 2) - 0.4, 1e-6, 100)
    cautious = sum(runs) * of_runs / lowest
    expected = (text + cautious) ** 2 / (text**2 / 399 + cautious**2 / of_runs)
    assert difference.degrees_of_freedom == pytest.approx(expected)


@pytest.mark.parametrize("differ", [0.01, 0.05])
def test_systems_of_which_one_varies_much_are_seldom_called_different(differ: float) -> None:
    """The worst case for Satterthwaite's rule alone, 8% at 0.05: runs vary much more than texts."""
    rng = np.random.default_rng(22)
    p_values = []
    for _ in range(1500):
        lens = drawn_lengths(rng, 400)
        common = output(rng, lens)
        changed = np.where((rng.random(400) < differ)[:, None], output(rng, lens), common)
        runs = []
        for effect in rng.normal(0, 0.04, N_RUNS):
            own = output(rng, lens, 0.75 + effect)
            runs.append(np.where((rng.random(400) < 0.3)[:, None], own, changed))
        same = SystemOutputs(np.repeat(common[None], N_RUNS, axis=0), [0] * N_RUNS)
        p_values.append(compare_outputs(same, SystemOutputs(np.array(runs), [0] * N_RUNS)).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.07


def test_what_does_not_vary_has_the_degrees_of_freedom_of_the_text() -> None:
    rng = np.random.default_rng(15)
    one = simulated(rng, drawn_lengths(rng, 30), 0.0, 1)
    assert compare_outputs(one, one).degrees_of_freedom == 29


def test_of_several_networks_the_variance_between_their_means_counts() -> None:
    rng = np.random.default_rng(9)
    lens = drawn_lengths(rng)
    networks = [simulated(rng, lens, 0.05, 2).statistics for _ in range(3)]
    system = SystemOutputs(np.concatenate(networks), [0, 0, 1, 1, 2, 2])
    means = [bleu(network.sum(axis=1)).mean() for network in networks]
    variance, freedom = system.run_variance() or (0.0, 0)
    assert variance == pytest.approx(np.var(means, ddof=1) / 3)
    assert freedom == 2
    two = SystemOutputs(system.statistics[:4], [0, 0, 1, 1])
    assert two.run_variance() == pytest.approx((np.var(means[:2], ddof=1) / 2, 1))
    uneven = SystemOutputs(system.statistics[:5], [0, 0, 1, 1, 2])
    assert uneven.shares.tolist() == pytest.approx([1 / 6] * 4 + [1 / 3])


def test_two_runs_are_enough_for_a_variance() -> None:
    rng = np.random.default_rng(13)
    system = simulated(rng, drawn_lengths(rng), 0.3, 2)
    scores = bleu(system.statistics.sum(axis=1))
    assert system.run_variance() == pytest.approx(((scores[0] - scores[1]) ** 2 / 4, 1))


def test_one_run_is_taken_to_vary_as_the_other_systems() -> None:
    rng = np.random.default_rng(10)
    lens = drawn_lengths(rng)
    many, one = simulated(rng, lens, 0.3), simulated(rng, lens, 0.3, 1)
    single = float(np.var(bleu(many.statistics.sum(axis=1)), ddof=1))
    assert compare_outputs(many, one).run_variance == pytest.approx(single / 3 + single)
    assert compare_outputs(one, simulated(rng, lens, 0.3, 1)).run_variance is None


def test_documents_are_left_out_whole() -> None:
    """The jackknife by its definition, with what is left of the text when a document is cut out of it."""
    rng = np.random.default_rng(18)
    lens = drawn_lengths(rng, 12)
    systems = simulated(rng, lens, 0.5), simulated(rng, lens, 0.5, 2)
    documents = np.array([7, 7, 7, 7, 7, 3, 3, 3, 9, 9, 4, 9])
    deltas = []
    for name in (3, 4, 7, 9):
        kept = documents != name
        means = [
            np.mean([bleu(run[kept].sum(axis=0)) for run in system.statistics])
            for system in systems
        ]
        deltas.append(means[1] - means[0])
    squares = sum((delta - np.mean(deltas)) ** 2 for delta in deltas)
    found = compare_outputs(*systems, documents)
    assert found.text_variance == pytest.approx(3 / 4 * squares)
    assert found.delta == pytest.approx(compare_outputs(*systems).delta)
    assert found.run_variance == pytest.approx(compare_outputs(*systems).run_variance)


def test_documents_of_one_sentence_are_the_sentences() -> None:
    rng = np.random.default_rng(19)
    lens = drawn_lengths(rng, 30)
    pair = simulated(rng, lens, 0.3), simulated(rng, lens, 0.3)
    by_document = compare_outputs(*pair, np.arange(30)[::-1])
    by_sentence = compare_outputs(*pair)
    for name in ("delta", "text_variance", "run_variance", "degrees_of_freedom"):
        assert getattr(by_document, name) == pytest.approx(getattr(by_sentence, name))


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_degrees_of_freedom_of_documents(shared: float) -> None:
    """Equal sizes: their number less one. Unequal: Satterthwaite's, of the sizes or of their squares.

    Squares are those where all sentences of a document are better by the same.
    """
    rng = np.random.default_rng(20)
    for sizes in ([5] * 8, [40, 30, 20, *[10] * 9]):
        documents = np.repeat(np.arange(len(sizes)), sizes)
        statistics = np.tile(output(rng, np.full(1, 20, np.int32), 0.7), (len(documents), 1))
        better = rng.random(len(sizes))[documents] if shared else rng.random(len(documents))
        changed = statistics.copy()
        changed[:, 0] += np.rint(4 * better).astype(np.int32)
        one, other = (SystemOutputs(rows[None], [0]) for rows in (statistics, changed))
        found = compare_outputs(one, other, documents).degrees_of_freedom
        variances = np.array(sizes) ** (2 if shared else 1)
        expected = variances.sum() ** 2 / (variances**2).sum() - 1
        assert found == pytest.approx(expected, rel=0.0 if len(set(sizes)) == 1 else 0.35, abs=1e-6)


@pytest.mark.parametrize(("by_document", "lowest", "highest"), [(True, 0.0, 0.07), (False, 0.2, 1)])
def test_sentences_that_go_up_and_down_together_need_documents(
    by_document: bool, lowest: float, highest: float
) -> None:
    """40 documents of 1 to 10 sentences, each better or worse as a whole, with no true difference."""
    rng = np.random.default_rng(21)
    p_values = []
    for _ in range(300):
        documents = np.repeat(np.arange(40), rng.integers(1, 11, 40))
        lens = drawn_lengths(rng, len(documents))
        pair = []
        for _ in range(2):
            quality = np.clip(rng.normal(0.7, 0.15, 40), 0.3, 0.95)[documents]
            pair.append(SystemOutputs(output(rng, lens, quality)[None], [0]))
        chosen = documents if by_document else None
        p_values.append(compare_outputs(pair[0], pair[1], chosen).p_value)
    assert lowest <= np.mean(np.array(p_values) < 0.05) <= highest


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.5, times 4, 3, 2, 1, never falling: 0.04, 0.06, 0.06, 0.5.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_bootstrap_deviation_of_equal_sentences_is_zero() -> None:
    statistics = np.tile(np.array([8, 10, 6, 9, 4, 8, 3, 7, 10]), (20, 1))
    assert bootstrap_deviation(statistics, 50, seed=1) == pytest.approx(0, abs=1e-9)


def test_bootstrap_deviation_is_that_of_texts_drawn_one_by_one() -> None:
    rng = np.random.default_rng(16)
    statistics = output(rng, drawn_lengths(rng, 60))
    drawn = [bleu(statistics[rng.integers(0, 60, 60)].sum(axis=0)) for _ in range(3000)]
    found = bootstrap_deviation(statistics, 3000, seed=1)
    assert found == pytest.approx(np.std(drawn), rel=0.06)
    # The variance of two texts is no smaller in the mean.
    pairs = [bootstrap_deviation(statistics, 2, seed) ** 2 for seed in range(400)]
    assert np.mean(pairs) == pytest.approx(np.var(drawn), rel=0.25)


def test_bootstrap_deviation_shrinks_with_the_text() -> None:
    rng = np.random.default_rng(6)
    small = bootstrap_deviation(output(rng, drawn_lengths(rng, 50)), 400, seed=1)
    large = bootstrap_deviation(output(rng, drawn_lengths(rng, 800)), 400, seed=1)
    assert large == pytest.approx(small / 4, rel=0.35)
