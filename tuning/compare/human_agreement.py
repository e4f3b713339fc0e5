"""How often people prefer the system that a metric prefers, by the size of the difference."""

from __future__ import annotations

import math
from typing import Literal

Metric = Literal["BLEU", "chrF"]

# Scale and slope of the sigmoids fitted by Kocmi et al. (2024), "Navigating the Metrics Maze: Reconciling Score
# Magnitudes and Accuracies" (ACL 2024, pages 1999-2014), as published in their tool MT-Thresholds
# (python-tool/mt_thresholds.py, web-tool/src/thresholds.json).
FITTED: dict[Metric, tuple[float, float]] = {
    "BLEU": (88.33333333333225, 0.9663926931178954),
    "chrF": (92.999999999972, 1.1142732157139852),
}


def human_agreement(delta: float, metric: Metric) -> float:
    """Percentage of pairs of systems in which people prefer the one with the better score.

    The fit of Kocmi et al. (2024): scale / (1 + exp(-slope * delta)). It is below 50, which is chance, for very
    small differences.

    Args:
        delta: the difference in sacreBLEU's metric of detokenised text, 0 to 100; not negative.
        metric: the metric.

    Raises:
        ValueError: delta is negative; the fit is for the better system's lead.
    """
    if delta < 0:
        raise ValueError(f"a lead of {delta}: expected 0 or more")
    scale, slope = FITTED[metric]
    return scale / (1 + math.exp(-slope * delta))
