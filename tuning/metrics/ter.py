"""TER (Snover et al. 2006) as sacreBLEU counts it, with its defaults.

The statistics of a hypothesis are the fewest edits to any of its references, and the mean length of these in
words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.ter import TER as SacreTer

from tuning.metrics.metric import FEW, Counts, Metric, MetricReferences, Values, are_few, unicode

Pair = tuple[bytes, tuple[bytes, ...]]


class TerMetric(Metric):
    """TER, edits for 100 reference words; less is better."""

    def value(self, sums: Counts) -> Values:
        """TER of summed statistics, *Shape:* (..., 2) -> (...)."""
        edits, n_words = sums[..., 0], sums[..., 1]
        rate = np.where(n_words > 0, edits / np.where(n_words > 0, n_words, 1), edits > 0)
        return np.asarray(100 * rate, np.float64)

    def quality(self, statistics: Counts) -> Values:
        """1 - TER of each hypothesis."""
        return 1 - self.value(statistics) / 100

    def gains(self, statistics: Counts) -> Values:
        """Minus the edits of each hypothesis."""
        return -np.asarray(statistics[:, 0], np.float64)


TER = TerMetric("ter", "TER", -1)


class TerReferences(MetricReferences):
    """References for TER; see `MetricReferences`.

    Args:
        sentences: for each sentence its references.
    """

    metric: ClassVar[TerMetric] = TER

    def __init__(self, sentences: Sequence[Sequence[bytes]]) -> None:
        super().__init__(sentences)
        self._counted: dict[Pair, tuple[int, float]] = {}  # many lists share most hypotheses

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.float64]:
        """Statistics of hypotheses, *Shape:* (n, 2)."""
        rest = iter(hypotheses)
        first = list(islice(rest, FEW + 1))
        count: Callable[[str, Sequence[str]], tuple[int, float]] = _count_plainly
        if not are_few(first):
            from tuning.metrics import ter_edits

            count = ter_edits.ter_statistics
        rows = []
        for number, words in chain(first, rest):
            pair = words, tuple(self.sentences[number])
            if pair not in self._counted:
                self._counted[pair] = count(unicode(words), [*map(unicode, pair[1])])
            rows.append(self._counted[pair])
        return np.array(rows, np.float64).reshape(-1, 2)


def _count_plainly(hypothesis: str, references: Sequence[str]) -> tuple[int, float]:
    """The edits and the length, by sacreBLEU itself."""
    score = SacreTer().sentence_score(hypothesis, references)
    return int(score.num_edits), float(score.ref_length)
