"""TER (Snover et al. 2006), word accuracy and character error rate (Levenshtein 1966, no shifts), equal lines.

The statistics of a hypothesis are its edits and the length of its reference, in words, or in characters with
blanks for the character error rate. Of several references the one with the fewest edits for its length
counts; for TER, as in sacreBLEU with its defaults, the fewest edits to any of them, and their mean length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics.ter import TER as SacreTer

from moses_bridge.formats.words import split_words
from tuning.metrics.metric import Counts, Metric, MetricReferences, Values, are_few, unicode

Units = Sequence[str] | Sequence[bytes]
Pair = tuple[bytes, tuple[bytes, ...]]
CHARACTERS_A_WORD = 6  # about, with the blank after it, for gains in words


@dataclass(frozen=True)
class EditRate(Metric):
    """Edits for 100 units of the reference, less is better; with the sign 1, 100 minus that.

    Attributes:
        units_a_word: 1, or the characters of a word where these are the units.
    """

    units_a_word: int = 1

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
        return -np.asarray(statistics[:, 0], np.float64) / self.units_a_word


WORD_ACCURACY = EditRate("word-accuracy", "word accuracy", 1)
LINE_ACCURACY = EditRate("line-accuracy", "line accuracy", 1)
CER = EditRate("cer", "CER", -1, CHARACTERS_A_WORD)
TER = EditRate("ter", "TER", -1)


class _EditReferences(MetricReferences):
    """References for edits without shifts of units of a text."""

    units_of: Callable[[bytes], Units]

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.int32]:
        """Statistics of hypotheses, *Shape:* (n, 2)."""
        references = [[*map(self.units_of, texts)] for texts in self.sentences]
        rows = []
        for number, words in hypotheses:
            units = self.units_of(words)
            counts = [(Levenshtein.distance(units, each), len(each)) for each in references[number]]
            rows.append(min(counts, key=lambda each: each[0] / max(1, each[1])))
        return np.array(rows, np.int32).reshape(-1, 2)


class WordAccuracyReferences(_EditReferences):
    """References for word accuracy; see `MetricReferences`."""

    metric, units_of = WORD_ACCURACY, staticmethod(split_words)


class LineAccuracyReferences(_EditReferences):
    """References for line accuracy, whose one unit is the line; see `MetricReferences`."""

    metric, units_of = LINE_ACCURACY, staticmethod(lambda text: [b" ".join(split_words(text))])


class CerReferences(_EditReferences):
    """References for the character error rate; see `MetricReferences`."""

    metric, units_of = CER, staticmethod(lambda text: unicode(text.strip(b" ")))


class TerReferences(MetricReferences):
    """References for TER; see `MetricReferences`."""

    metric = TER

    def __init__(self, sentences: Sequence[Sequence[bytes]]) -> None:
        super().__init__(sentences)
        self._counted: dict[Pair, tuple[int, float]] = {}  # many lists share most hypotheses

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.float64]:
        """Statistics of hypotheses, *Shape:* (n, 2)."""
        pairs = list(hypotheses)
        count: Callable[[str, Sequence[str]], tuple[int, float]] = _count_plainly
        if not are_few(pairs):
            from tuning.metrics import ter_edits

            count = ter_edits.ter_statistics
        rows = []
        for number, words in pairs:
            pair = words, tuple(self.sentences[number])
            if pair not in self._counted:
                self._counted[pair] = count(unicode(words), [*map(unicode, pair[1])])
            rows.append(self._counted[pair])
        return np.array(rows, np.float64).reshape(-1, 2)


def _count_plainly(hypothesis: str, references: Sequence[str]) -> tuple[int, float]:
    """The edits and the length, by sacreBLEU itself."""
    score = SacreTer().sentence_score(hypothesis, references)
    return int(score.num_edits), float(score.ref_length)


COUNTERS: dict[str, type[MetricReferences]] = {
    "ter": TerReferences,
    "cer": CerReferences,
    "word-accuracy": WordAccuracyReferences,
    "line-accuracy": LineAccuracyReferences,
}
