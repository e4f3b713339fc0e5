"""How significant a difference in BLEU is: over the text, over the tuning runs, and over both.

A repeated experiment would differ in two things: the test sentences, and the random parts of the runs of
a system (the seed of a tuning, a network, a noise column). Runs of one system share nearly everything else,
so they are no independent outputs: each of the two gives a variance of its own, and the two are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import nct, t

from tuning.pools.bleu_stats import Statistics, bleu

LEVEL = 0.05  # of a test; the usual one, and that of the intervals
POWER = 0.8  # the share of cases meant by "is found" (Cohen 1988, section 2.4)
LARGEST_SHIFT = 1e3  # in standard errors; above every possible result of the search for POWER


@dataclass(frozen=True)
class SystemOutputs:
    """Outputs of one system on a text.

    Attributes:
        statistics: BLEU statistics of each run, *Shape:* (n_runs, n_sentences, 9).
        groups: for each run the number of its network or noise column; runs of one group differ in
            the tuning alone, *Shape:* (n_runs,).
    """

    statistics: NDArray[np.int32]
    groups: Sequence[int]

    @property
    def shares(self) -> NDArray[np.float64]:
        """Weight of each run: equal over groups, and over the runs of a group, *Shape:* (n_runs,)."""
        groups = np.asarray(self.groups)
        _, places, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / (len(sizes) * sizes[places]))

    def mean_bleu(self) -> float:
        """BLEU (0 to 100), the mean over the groups of the means over their runs."""
        return float(self.shares @ bleu(self.statistics.sum(axis=1)))

    def group_means(self) -> NDArray[np.float64]:
        """BLEU (0 to 100) of each group, the mean over its runs, *Shape:* (n_groups,)."""
        scores, groups = bleu(self.statistics.sum(axis=1)), np.asarray(self.groups)
        return np.array([scores[groups == name].mean() for name in np.unique(groups)])

    def run_variance(self) -> tuple[float, int] | None:
        """Variance of `mean_bleu` between tunings on this text, and its degrees of freedom.

        With several groups it is the variance between their means, which includes that of the tunings.

        Returns:
            None with one run.
        """
        means = self.group_means()
        scores = means if len(means) > 1 else bleu(self.statistics.sum(axis=1))
        if len(scores) < 2:
            return None
        return float(scores.var(ddof=1)) / len(scores), len(scores) - 1

    def left_out(self) -> NDArray[np.float64]:
        """`mean_bleu` of the text without each sentence in turn, *Shape:* (n_sentences,)."""
        sums = self.statistics.sum(axis=1, dtype=np.int64, keepdims=True)
        return np.asarray(self.shares @ bleu(sums - self.statistics))


@dataclass(frozen=True)
class Difference:
    """A difference in BLEU of two systems and its significance.

    Attributes:
        delta: mean BLEU of the system minus that of the baseline, 0 to 100.
        text_variance: variance of the delta over texts, with these runs.
        run_variance: variance of the delta over runs, on this text; None where both systems have one run.
        degrees_of_freedom: those of Student's t, followed by delta / standard_error without a true difference.
    """

    delta: float
    text_variance: float
    run_variance: float | None
    degrees_of_freedom: float

    @property
    def standard_error(self) -> float:
        """Standard error of the delta, over texts and runs."""
        return float(np.sqrt(self.text_variance + (self.run_variance or 0.0)))

    @property
    def p_value(self) -> float:
        """How often a delta would be at least as far from 0 if the systems did not differ."""
        if self.standard_error == 0.0:
            return 1.0
        return float(2 * t.sf(abs(self.delta) / self.standard_error, self.degrees_of_freedom))

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95% interval of the delta."""
        reach = float(t.isf(LEVEL / 2, self.degrees_of_freedom)) * self.standard_error
        return self.delta - reach, self.delta + reach

    @property
    def smallest_found(self) -> float:
        """The true difference detected with p < 0.05 in 80% of cases, given this standard error."""
        least = t.isf(LEVEL / 2, self.degrees_of_freedom)

        def missing_power(shift: float) -> float:
            return float(nct.sf(least, self.degrees_of_freedom, shift)) - POWER

        return float(brentq(missing_power, 0.0, LARGEST_SHIFT)) * self.standard_error


def compare_outputs(baseline: SystemOutputs, system: SystemOutputs) -> Difference:
    """The difference of two systems on one text.

    The variance over texts is the jackknife's (Efron & Tibshirani 1993, section 11.5): a sentence is left
    out of all runs of both systems together, so that runs do not count as more text. To it the variance
    between the runs of each system is added (Welch 1947), with the degrees of freedom of Satterthwaite
    (1946). The chance in one sentence of one run is in both terms, so the sum is a little too
    large rather than too small. A system of one run is assumed to vary as the other one does.

    Args:
        baseline: at least two sentences.
        system: the same sentences, any number of runs.
    """
    n_sentences = baseline.statistics.shape[1]
    left_out = system.left_out() - baseline.left_out()
    text = float((n_sentences - 1) * left_out.var())
    parts = [(text, n_sentences - 1)]
    of_runs = [_run_variance(one, other) for one, other in ((baseline, system), (system, baseline))]
    parts += [part for part in of_runs if part is not None]
    return Difference(
        delta=system.mean_bleu() - baseline.mean_bleu(),
        text_variance=text,
        run_variance=None if None in of_runs else sum(v for v, _ in parts[1:]),
        degrees_of_freedom=_degrees_of_freedom(parts),
    )


def _run_variance(own: SystemOutputs, other: SystemOutputs) -> tuple[float, int] | None:
    """The run variance of a system; with one run, that of single runs of the other system."""
    found = own.run_variance()
    if found is not None:
        return found
    of_other = other.run_variance()
    if of_other is None:
        return None
    variance, freedom = of_other
    return variance * (freedom + 1), freedom


def _degrees_of_freedom(parts: Sequence[tuple[float, int]]) -> float:
    """Degrees of freedom of a sum of variances, given theirs (Satterthwaite 1946)."""
    total = sum(variance for variance, _ in parts)
    squares = sum(variance**2 / freedom for variance, freedom in parts)
    return total**2 / squares if squares > 0.0 else float(parts[0][1])


def jackknife_error(
    first: NDArray[np.integer[Any]] | NDArray[np.float64],
    second: NDArray[np.integer[Any]] | NDArray[np.float64],
) -> float:
    """Standard error over texts of the difference in BLEU (0 to 100) of two outputs of one text.

    The jackknife of Efron & Tibshirani (1993), section 11.5, as in `compare_outputs`; the chance in a
    tuning or a training is not included.

    Args:
        first: BLEU statistics of each sentence, whole numbers or not, *Shape:* (n_sentences, 9).
        second: the other output's.
    """
    left_out = bleu(second.sum(axis=0) - second) - bleu(first.sum(axis=0) - first)
    return float(np.sqrt((len(first) - 1) * left_out.var()))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number: any false finding among them is as rare as the level (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    corrected = np.empty(len(p_values))
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return [float(value) for value in corrected]


def bootstrap_deviation(statistics: Statistics, n_samples: int, seed: int) -> float:
    """Standard deviation of BLEU (0 to 100) over resampled test sets (Koehn 2004).

    Args:
        statistics: BLEU statistics of one output, *Shape:* (n_sentences, 9).
        n_samples: number of test sets drawn with replacement.
        seed: seed of the draws.
    """
    rng = np.random.default_rng(seed)
    n_sentences = len(statistics)
    counts = rng.multinomial(n_sentences, np.full(n_sentences, 1 / n_sentences), n_samples)
    return float(bleu(counts @ statistics).std(ddof=1))
