"""The results of a table in sentences, made from its numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from tuning.compare.comparison import Comparison, Contrast, ResultRow

SURE = 0.05
CHANCE = 50  # per cent, of a preference between two systems


def verdict(comparison: Comparison) -> list[str]:
    """Paragraphs on the best system, significant differences, gains too small to be found, people's agreement.

    The first row of the comparison is the baseline; a system alone has none.
    """
    if len(comparison.rows) < 2:
        return []
    baseline, *others = comparison.rows
    highest = max(round(row.test_bleu, 2) for row in comparison.rows)  # as it is printed
    best = [row for row in comparison.rows if round(row.test_bleu, 2) == highest]
    sentences = [
        _best_sentence(best, comparison),
        _significance_sentence(comparison),
        _missed_sentence(others),
        _people_sentence(best, baseline, comparison.control),
    ]
    return [sentence for sentence in sentences if sentence]


def _best_sentence(best: Sequence[ResultRow], comparison: Comparison) -> str:
    baseline, names = comparison.rows[0], [row.system for row in best]
    sentence = f"The highest test BLEU is {best[0].test_bleu:.2f}, of {_listed(names)}"
    if best == [baseline]:
        sentence += ", the baseline: no system is better"
    elif baseline not in best:
        lead = best[0].test_bleu - baseline.test_bleu
        sentence += f": {lead:.2f} more than {baseline.system}"
    if comparison.control in names:
        sentence += f"; {comparison.control} is the control, which cannot help"
    return f"{sentence}."


def _significance_sentence(comparison: Comparison) -> str:
    """The differences from the baseline beyond chance, and doubts about them because of the control."""
    baseline, *others = comparison.rows
    found = [
        (row, row.against_baseline)
        for row in others
        if row.against_baseline is not None and row.against_baseline.corrected_p_value < SURE
    ]
    better = [(row, contrast) for row, contrast in found if contrast.delta > 0]
    worse = [(row, contrast) for row, contrast in found if contrast.delta < 0]
    which = f"than {baseline.system} (corrected p < {SURE})"
    sentence = f"Significantly better {which}: {_with_deltas(better)}."
    if not better:
        sentence = f"No system is significantly better {which}."
    if worse:
        sentence += f" Significantly worse: {_with_deltas(worse)}."
    sentence += _control_doubt([row for row, _ in better], comparison.control)
    return sentence + _covered(others)


def _with_deltas(found: Sequence[tuple[ResultRow, Contrast]]) -> str:
    return ", ".join(f"{row.system} ({contrast.delta:+.2f})" for row, contrast in found)


def _control_doubt(better: Sequence[ResultRow], control: str) -> str:
    """The improved systems that do not beat the control; a control that improves needs no such test."""
    doubtful = [
        row.system
        for row in better
        if row.against_control is not None
        and not (row.against_control.corrected_p_value < SURE and row.against_control.delta > 0)
    ]
    if not doubtful:
        return ""
    return f" Not significantly better than the control {control}: {', '.join(doubtful)}."


def _covered(others: Sequence[ResultRow]) -> str:
    """The variation missing in these p-values: of tunings with one run each, of trainings of one network."""
    compared = [row for row in others if row.against_baseline is not None]
    single = [
        row for row in compared if row.against_baseline and not row.against_baseline.covers_runs
    ]
    one_network = [
        row.system
        for row in compared
        if row not in single and row.n_networks == 1 and not row.same_models
    ]
    sentence = ""
    if single:
        whose = "" if single == compared else f" of {_listed([row.system for row in single])}"
        sentence += f" The p-values{whose} are over test sentences alone, with one tuning run each."
    if one_network:
        sentence += f" Of {_listed(one_network)} one network was trained; another one may differ."
    return sentence


def _missed_sentence(others: Sequence[ResultRow]) -> str:
    """The gains too small to be found; rows with the baseline's own output have no such limit."""
    limits = {
        row.system: row.against_baseline.smallest_found
        for row in others
        if row.against_baseline is not None and row.against_baseline.smallest_found > 0
    }
    if not limits:
        return ""
    least, most = min(limits, key=limits.__getitem__), max(limits, key=limits.__getitem__)
    size = f"{limits[least]:.2f} BLEU ({least})"
    if f"{limits[least]:.2f}" != f"{limits[most]:.2f}":
        size = f"{limits[least]:.2f} ({least}) to {limits[most]:.2f} BLEU ({most})"
    return (
        f"Smaller true gains than {size} could go unseen: only from there on are they found (p < {SURE}, "
        "uncorrected) in 80% of cases."
    )


def _people_sentence(best: Sequence[ResultRow], baseline: ResultRow, control: str) -> str:
    """How often people agree with a lead of this size, of the best system that is no control."""
    leaders = [row for row in best if row.system != control]
    if not leaders or baseline in best:
        return ""
    leader = leaders[0]
    parts = [
        _agreement(leader.detokenised_bleu - baseline.detokenised_bleu, "BLEU"),
        _agreement(leader.chrf - baseline.chrf, "chrF"),
    ]
    return (
        "How often people prefer the system with the better score, estimated from the detokenised scores of "
        f"{leader.system} against {baseline.system} (Kocmi et al. 2024): {', '.join(parts)}."
    )


def _agreement(delta: float, metric: FittedMetric) -> str:
    points = f"{delta:+.2f} {metric}"
    if delta <= 0:
        return f"no gain with {points}"
    share = round(human_agreement(delta, metric))
    return f"{share}% with {points}" if share > CHANCE else f"no more than chance with {points}"


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


FittedMetric = Literal["BLEU", "chrF"]

# Scale and slope of the sigmoids fitted by Kocmi et al. (2024), "Navigating the Metrics Maze: Reconciling Score
# Magnitudes and Accuracies" (ACL 2024, pages 1999-2014), as published in their tool MT-Thresholds
# (python-tool/mt_thresholds.py, web-tool/src/thresholds.json).
FITTED: dict[FittedMetric, tuple[float, float]] = {
    "BLEU": (88.33333333333225, 0.9663926931178954),
    "chrF": (92.999999999972, 1.1142732157139852),
}


def human_agreement(delta: float, metric: FittedMetric) -> float:
    """Percentage of pairs of systems in which people prefer the one with the better score.

    The fit of Kocmi et al. (2024): scale / (1 + exp(-slope * delta)). It is below 50, which is chance, for
    very small differences. `delta` is the difference in sacreBLEU's metric of detokenised text, 0 to 100.

    Raises:
        ValueError: delta is negative; the fit is for the better system's lead.
    """
    if delta < 0:
        raise ValueError(f"a lead of {delta}: expected 0 or more")
    scale, slope = FITTED[metric]
    return scale / (1 + math.exp(-slope * delta))
