"""Word accuracy and character error rate, by edit distance (Levenshtein 1966) without shifts.

The statistics of a hypothesis are its edits and the length of its reference, in words or in characters with
blanks. Of several references the one with the fewest edits for its length counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from moses_bridge.formats.words import split_words
from tuning.metrics.metric import Counts, Metric, MetricReferences, Values, unicode

Units = Sequence[str] | Sequence[bytes]
CHARACTERS_A_WORD = 6  # about, with the blank behind it, for gains in words


class EditRate(Metric):
    """A metric of edits and lengths; the value of word accuracy is 100 - rate, that of others the rate."""

    def value(self, sums: Counts) -> Values:
        """Edits for 100 units of the reference, or 100 minus that: *Shape:* (..., 2) -> (...)."""
        edits, n_units = sums[..., 0], sums[..., 1]
        rate = 100 * np.where(n_units > 0, edits / np.where(n_units > 0, n_units, 1), edits > 0)
        return np.asarray(rate if self.sign < 0 else 100 - rate, np.float64)

    def quality(self, statistics: Counts) -> Values:
        """1 - edits / length of each hypothesis."""
        values = self.value(statistics) / 100
        return values if self.sign > 0 else 1 - values

    def gains(self, statistics: Counts) -> Values:
        """Minus the edits of each hypothesis, in words."""
        return -np.asarray(statistics[:, 0], np.float64) / (
            1 if self.sign > 0 else CHARACTERS_A_WORD
        )


WORD_ACCURACY = EditRate("word-accuracy", "word accuracy", 1)
CER = EditRate("cer", "CER", -1)


class WordAccuracyReferences(MetricReferences):
    """References for word accuracy; see `MetricReferences`."""

    metric: ClassVar[EditRate] = WORD_ACCURACY

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.int32]:
        """Statistics of hypotheses, *Shape:* (n, 2)."""
        return _counted(self.sentences, hypotheses, split_words)


class CerReferences(MetricReferences):
    """References for the character error rate; see `MetricReferences`."""

    metric: ClassVar[EditRate] = CER

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.int32]:
        """Statistics of hypotheses, *Shape:* (n, 2)."""
        return _counted(self.sentences, hypotheses, lambda text: unicode(text.strip(b" ")))


def _counted(
    sentences: Sequence[Sequence[bytes]],
    hypotheses: Iterable[tuple[int, bytes]],
    units_of: Callable[[bytes], Units],
) -> NDArray[np.int32]:
    references = [[units_of(text) for text in texts] for texts in sentences]
    rows = []
    for number, words in hypotheses:
        units = units_of(words)
        counts = [(Levenshtein.distance(units, other), len(other)) for other in references[number]]
        rows.append(min(counts, key=lambda each: each[0] / max(1, each[1])))
    return np.array(rows, np.int32).reshape(-1, 2)
