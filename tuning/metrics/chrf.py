"""chrF (Popovic 2015), with sacreBLEU's defaults and to the last digit of its numbers.

The statistics of a hypothesis are 18 whole numbers: for 1- to 6-grams of characters in turn those of the
hypothesis, of the reference, and the matches. White space is left out. Of several references the one with
the highest chrF counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tuning.metrics.metric import Counts, Metric, MetricReferences, Values, are_few, ngrams, unicode

Text = NDArray[np.int32]  # characters by their numbers in Unicode

MAX_ORDER = 6
BETA_SQUARED = 4.0  # recall counts twice as much as precision
CHARACTERS_A_WORD = 6  # about, with the blank after it, for gains in words


class ChrfMetric(Metric):
    """chrF, 0 to 100."""

    def value(self, sums: Counts) -> Values:
        """ChrF of summed statistics, *Shape:* (..., 18) -> (...).

        The F-score of the mean precision and the mean recall over the orders found in both texts.
        """
        rows = np.asarray(sums, np.float64)
        precision, recall, n_orders = (np.zeros(rows.shape[:-1]) for _ in range(3))
        for order in range(MAX_ORDER):
            found, expected, matches = (rows[..., 3 * order + k] for k in range(3))
            is_there = (found > 0) & (expected > 0)
            precision += np.where(is_there, matches / np.where(is_there, found, 1), 0.0)
            recall += np.where(is_there, matches / np.where(is_there, expected, 1), 0.0)
            n_orders += is_there
        precision /= np.maximum(n_orders, 1)
        recall /= np.maximum(n_orders, 1)
        product = (1 + BETA_SQUARED) * precision * recall
        weighted = BETA_SQUARED * precision + recall
        return 100 * (product / np.where(weighted > 0, weighted, 1.0))

    def quality(self, statistics: Counts) -> Values:
        """ChrF of each hypothesis, 0 to 1."""
        return self.value(statistics) / 100

    def gains(self, statistics: Counts) -> Values:
        """ChrF of each hypothesis, 0 to 1, times the length of its reference in words."""
        return self.quality(statistics) * statistics[:, 1] / CHARACTERS_A_WORD


CHRF = ChrfMetric("chrf", "chrF", 1)


class ChrfReferences(MetricReferences):
    """References for chrF; see `MetricReferences`."""

    metric = CHRF

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.int32]:
        """Statistics of hypotheses, *Shape:* (n, 18)."""
        pairs = list(hypotheses)
        if are_few(pairs):
            return self._counted(pairs, _count_plainly)
        from tuning.metrics.matched_ngrams import COMPILING, count_characters

        with COMPILING:
            return self._counted(pairs, count_characters)

    def _counted(
        self, pairs: Sequence[tuple[int, bytes]], count: Callable[[Text, Text, Text], None]
    ) -> NDArray[np.int32]:
        rows = np.zeros((len(pairs), 3 * MAX_ORDER), np.int32)
        others: list[list[Text]] = [[] for _ in self.sentences]
        for row, (sentence, words) in zip(rows, pairs, strict=True):
            if not others[sentence]:
                others[sentence] = [_characters(text) for text in self.sentences[sentence]]
            found = np.zeros((len(others[sentence]), 3 * MAX_ORDER), np.int32)
            for counts, other in zip(found, others[sentence], strict=True):
                count(_characters(words), other, counts)
            row[:] = found[0 if len(found) == 1 else int(np.argmax(CHRF.value(found)))]
        return rows


def _count_plainly(text: Text, reference: Text, counts: Text) -> None:
    """Fill the statistics of a text against a reference by their definition, *Shape of counts:* (18,)."""
    for order in range(MAX_ORDER):
        own, other = (ngrams(units.tolist(), order + 1) for units in (text, reference))
        if not other:  # sacreBLEU counts none against a reference without any
            own.clear()
        counts[3 * order : 3 * order + 3] = own.total(), other.total(), (own & other).total()


def _characters(text: bytes) -> NDArray[np.int32]:
    shown = "".join(unicode(text).split())
    return np.frombuffer(shown.encode("utf-32-le", "replace"), np.int32)
