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
from scipy.stats import chi2, nct, t

from tuning.compare.system_outputs import SystemOutputs
from tuning.metrics.bleu import bleu

LEVEL = 0.05  # of a test; the usual one, and that of the intervals
POWER = 0.8  # the share of cases meant by "is found" (Cohen 1988, section 2.4)
CAUTION = 0.6  # 0.5 gives 7% for 6%, and power falls with it; measured by tests/bench/bench_false_positives.py
LARGEST_SHIFT = 1e3  # in standard errors; above every possible result of the search for POWER


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


def compare_outputs(
    baseline: SystemOutputs, system: SystemOutputs, documents: NDArray[np.int64] | None = None
) -> Difference:
    """The difference of two systems on one text of two or more sentences.

    The variance over texts is the jackknife's (Efron & Tibshirani 1993, section 11.5): a sentence is left out
    of all runs of both systems together, so that runs do not count as more text. To it the variance between the
    runs of each system is added (Welch 1947), with the degrees of freedom of Satterthwaite (1946), fewer where
    they depend on few runs. The chance in one sentence of one run is in both terms, so the sum is a little too
    large rather than too small. A system of one run is assumed to vary as the other one does.

    Where sentences of one document go up or down together, whole documents are left out instead: the jackknife
    of clusters (Cameron & Miller 2015), its degrees of freedom those of `_document_freedom`. Then `documents`
    has the number of each sentence's, *Shape:* (n_sentences,), two documents or more.
    """
    left_out = system.left_out() - baseline.left_out()
    freedom: float = len(left_out) - 1
    if documents is not None:
        freedom = _document_freedom(left_out - left_out.mean(), documents)
        left_out = system.by_document(documents).left_out()
        left_out -= baseline.by_document(documents).left_out()
    text = float((len(left_out) - 1) * left_out.var())
    of_runs = [_run_variance(one, other) for one, other in ((baseline, system), (system, baseline))]
    run_parts = [part for part in of_runs if part is not None]
    return Difference(
        delta=system.mean_bleu() - baseline.mean_bleu(),
        text_variance=text,
        run_variance=None if None in of_runs else sum(v for v, _ in run_parts),
        degrees_of_freedom=_degrees_of_freedom((text, freedom), run_parts),
    )


def _run_variance(own: SystemOutputs, other: SystemOutputs) -> tuple[float, float] | None:
    """The run variance of a system; with one run, that of single runs of the other system."""
    found = own.run_variance()
    if found is not None:
        return found
    of_other = other.run_variance()
    if of_other is None:
        return None
    variance, freedom = of_other
    return variance * (freedom + 1), freedom


def _document_freedom(effects: NDArray[np.float64], documents: NDArray[np.int64]) -> float:
    """Degrees of freedom of a variance between documents of different sizes; with equal sizes their number - 1.

    A document of m sentences adds s m + d m^2 to the variance. The variances of a sentence, s, and of the
    effect shared in a document, d, are estimated from each sentence's contribution to the difference, mean 0
    (analysis of variance); they give the degrees of freedom by Satterthwaite (1946), as in Imbens & Kolesar
    (2016).
    """
    _, places, sizes = np.unique(documents, return_inverse=True, return_counts=True)
    sums = np.bincount(places, effects)
    within = float(effects @ effects - (sums**2 / sizes).sum())
    of_sentence = within / max(1, len(effects) - len(sizes))
    of_document = max(0.0, float(sums @ sums - of_sentence * len(effects)) / float(sizes @ sizes))
    variances = of_sentence * sizes + of_document * sizes**2
    if not variances.any():
        return len(sizes) - 1
    return max(1.0, float(variances.sum() ** 2 / (variances @ variances)) - 1)


def _degrees_of_freedom(text: tuple[float, float], runs: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of the sum of a variance over texts and variances over runs, given theirs.

    The runs' variances have those of Welch (1947), the sum those of Satterthwaite (1946). By chance a variance
    of three runs is often far too small, and the sum then looks as sure as the text's alone: if one system
    varies much and the other does not, 8% of p-values are below 0.05. So the runs' variance enters here, and
    here alone, by a higher value, its upper confidence limit of `CAUTION`: 6% (of two runs 8% instead of 13%).
    """
    of_runs = sum(variance for variance, _ in runs)
    if not of_runs:
        return text[1]
    freedom = _satterthwaite(runs)
    return _satterthwaite([text, (of_runs * freedom / float(chi2.isf(CAUTION, freedom)), freedom)])


def _satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances, at least one of them above 0, given theirs."""
    total = sum(variance for variance, _ in parts)
    return total**2 / sum(variance**2 / freedom for variance, freedom in parts)


def jackknife_error(
    first: NDArray[np.integer[Any]] | NDArray[np.float64],
    second: NDArray[np.integer[Any]] | NDArray[np.float64],
) -> float:
    """Standard error over texts of the difference in BLEU (0 to 100) of two outputs of one text.

    The jackknife of Efron & Tibshirani (1993), section 11.5, as in `compare_outputs`; the chance in a tuning
    or a training is not included. BLEU statistics of each sentence, whole numbers or not, *Shape:*
    (n_sentences, 9).
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
