"""Several metrics at once: the sum of their values times their weights, such as (BLEU - TER) / 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuning.metrics.metric import Counts, Metric, MetricReferences, Values


@dataclass(frozen=True)
class MixedMetric(Metric):
    """A weighted sum of metrics, 0 to 100 each; those of which less is better count with a minus.

    Attributes:
        parts: the metrics, with their weights and the columns of their statistics.
    """

    parts: tuple[tuple[Metric, float, slice], ...]

    def value(self, sums: Counts) -> Values:
        """The weighted sum of the values of summed statistics, *Shape:* (..., n_statistics) -> (...)."""
        values = [w * metric.sign * metric.value(sums[..., at]) for metric, w, at in self.parts]
        return np.asarray(np.sum(values, axis=0))

    def quality(self, statistics: Counts) -> Values:
        """The weighted mean of the qualities of each hypothesis."""
        return self._mean([metric.quality(statistics[:, at]) for metric, _, at in self.parts])

    def gains(self, statistics: Counts) -> Values:
        """The weighted mean of the gains of each hypothesis; for BLEU, BLEU+1 times the reference's words."""
        found = []
        for metric, _, at in self.parts:
            own = statistics[:, at]
            gains = metric.gains(own)
            found.append(metric.quality(own) * own[:, -1] if gains is None else gains)
        return self._mean(found)

    def _mean(self, values: Sequence[Values]) -> Values:
        return np.asarray(
            np.average(values, axis=0, weights=[weight for _, weight, _ in self.parts])
        )


class MixedReferences(MetricReferences):
    """References for several metrics, each with its weight; see `MetricReferences`."""

    def __init__(self, name: str, counters: Sequence[tuple[MetricReferences, float]]) -> None:
        super().__init__(counters[0][0].sentences)
        self._counters = [counter for counter, _ in counters]
        ends = np.cumsum(
            [0, *(counter.statistics([]).shape[1] for counter, _ in counters)]
        ).tolist()
        parts = tuple(
            (counter.metric, weight, slice(first, end))
            for (counter, weight), first, end in zip(counters, ends, ends[1:], strict=False)
        )
        label = " ".join(f"{w * metric.sign:+g} {metric.label}" for metric, w, _ in parts)
        self.metric = MixedMetric(name, label.removeprefix("+"), 1, parts)

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> Any:
        """Statistics of hypotheses, those of the metrics side by side."""
        pairs = [*hypotheses]
        return np.hstack([counter.statistics(pairs) for counter in self._counters])
