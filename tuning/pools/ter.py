"""TER (Snover et al. 2006) as sacreBLEU counts it, with its defaults.

The statistics of a hypothesis are the fewest edits to any of its references, and the mean length of these in
words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tuning.pools.metric import Counts, SummedMetric, TextReferences, Values, unicode
from tuning.pools.ter_edits import ter_statistics

Pair = tuple[bytes, tuple[bytes, ...]]


class TerMetric(SummedMetric):
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


class TerReferences(TextReferences):
    """References for TER; see `TextReferences`.

    Args:
        sentences: for each sentence its references.
    """

    metric: ClassVar[TerMetric] = TER

    def __init__(self, sentences: Sequence[Sequence[bytes]]) -> None:
        super().__init__(sentences)
        self._counted: dict[Pair, tuple[int, float]] = {}  # many lists share most hypotheses

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.float64]:
        """Statistics of hypotheses, *Shape:* (n, 2)."""
        rows = [self._of((words, tuple(self.sentences[number]))) for number, words in hypotheses]
        return np.array(rows, np.float64).reshape(-1, 2)

    def _of(self, pair: Pair) -> tuple[int, float]:
        if pair not in self._counted:
            words, references = pair
            self._counted[pair] = ter_statistics(unicode(words), [*map(unicode, references)])
        return self._counted[pair]
