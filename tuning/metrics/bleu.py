"""BLEU's sufficient statistics, as Moses's extractor counts them, and BLEU from their sum.

The statistics of a hypothesis are nine whole numbers: matches and totals of 1- to 4-grams in turn,
then the closest reference length (ties to the shorter): `mert/BleuScorer.cpp`, `mert/Reference.h:86`.
They add up over sentences, so scoring, tuning and testing all start from one array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.textio import StrPath
from tuning.metrics.metric import (
    Counts,
    Metric,
    MetricReferences,
    Rows,
    Values,
    are_few,
    ngrams,
    read_references,
)

MAX_ORDER = 4  # Papineni et al. (2002), section 2.3
N_STATISTICS = 2 * MAX_ORDER + 1  # matches and totals, and the reference length
TINY = 1e-9  # replaces a count of 0 in logarithms and quotients

Statistics = NDArray[np.int32]
Sums = NDArray[np.int64]


class _WordNumbers(dict[bytes, int]):
    """Words numbered in the order of their first use; the empty word between two blanks has no number."""

    def __missing__(self, word: bytes) -> int:
        self[word] = number = len(self)
        return number

    def encode(self, texts: Iterable[bytes]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Numbers of all words of the texts, and the start of each text (and the end of the last one)."""
        words: list[int] = []
        offsets = [0]
        number = self.__getitem__
        for text in texts:
            words.extend(map(number, _words(text)))
            offsets.append(len(words))
        return np.array(words, np.int32), np.array(offsets, np.int64)


class BleuMetric(Metric):
    """BLEU as a tuning metric."""

    def value(self, sums: Counts) -> Values:
        """Corpus BLEU; see `bleu`."""
        return bleu(sums)

    def level(self, value: float) -> float:
        """Log BLEU (0 to 1) of BLEU (0 to 100)."""
        return float(np.log(value / 100)) if value > 0 else -np.inf

    def along(self, statistics: Counts, firsts: Rows, losers: Rows, winners: Rows) -> Values:
        """Log BLEU (0 to 1) in each interval of a line; -infinity where some order has no match."""
        from tuning.metrics.matched_ngrams import fill_bleu

        products, brevity = np.empty(len(losers) + 1), np.empty(len(losers) + 1)
        fill_bleu(statistics, firsts, losers, winners, products, brevity)
        with np.errstate(divide="ignore"):
            return np.asarray(0.25 * np.log(products) + brevity)

    def quality(self, statistics: Counts) -> Values:
        """BLEU+1 (0 to 1) of each hypothesis, with a longer reference; see `log_sentence_bleu`."""
        return np.exp(log_sentence_bleu(statistics, added_reference_words=1))

    def oracle_order(self, statistics: Counts) -> Values:
        """Log of BLEU+1 of each hypothesis."""
        return log_sentence_bleu(statistics)

    def gains(self, statistics: Counts) -> None:
        """None: the optimisers use the sums of BLEU."""


BLEU = BleuMetric("bleu", "BLEU", 1)


class References(MetricReferences):
    """Reference translations of each sentence, tokens separated by blanks, ready for counting."""

    metric = BLEU

    def __init__(self, sentences: Sequence[Sequence[bytes]]) -> None:
        super().__init__(sentences)
        self._numbers = _WordNumbers()
        texts = (text for references in sentences for text in references)
        self._words, self._offsets = self._numbers.encode(texts)
        self._firsts = np.cumsum([0, *map(len, sentences)])

    @classmethod
    def read(cls, paths: Sequence[StrPath], source: StrPath | None = None) -> References:
        """Read one file a reference; see `read_references`."""
        return cls(read_references(paths, source))

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> Statistics:
        """Statistics of hypotheses, each a sentence number and tokens, *Shape:* (n_hypotheses, 9)."""
        pairs = list(hypotheses)
        words, offsets = self._numbers.encode(text for _, text in pairs)
        sentences = np.array([number for number, _ in pairs], np.int64)
        if len(pairs) and not 0 <= sentences.min() <= sentences.max() < len(self):
            raise IndexError(f"sentences 0 to {len(self) - 1} have references, not all of these")
        rows = np.zeros((len(pairs), N_STATISTICS), np.int32)
        if are_few(pairs):
            for row, (number, text) in zip(rows, pairs, strict=True):
                row[:] = _plain_statistics(_words(text), [*map(_words, self.sentences[number])])
            return rows
        from tuning.metrics.matched_ngrams import COMPILING, count_words

        with COMPILING:
            count_words(words, offsets, sentences, self._words, self._offsets, self._firsts, rows)
        return rows


def _words(text: bytes) -> list[bytes]:
    return [word for word in text.split(b" ") if word]


def _plain_statistics(words: list[bytes], references: Sequence[list[bytes]]) -> list[int]:
    """The statistics of a hypothesis by their definition (Papineni et al. 2002, section 2.1.1)."""
    row = []
    for order in range(1, MAX_ORDER + 1):
        own, most = ngrams(words, order), Counter[Any]()
        for reference in references:
            most |= ngrams(reference, order)
        row += [(own & most).total(), own.total()]
    return [*row, min(map(len, references), key=lambda size: (abs(size - len(words)), size))]


def bleu(statistics: Counts) -> Values:
    """Corpus BLEU, 0 to 100, of summed statistics, *Shape:* (..., 9) -> (...).

    0 where some order has no match, as in multi-bleu; no smoothing (Papineni et al. 2002, section 2.3).
    """
    sums = np.asarray(statistics, np.float64)
    log_brevity = np.minimum(0.0, 1 - sums[..., -1] / np.maximum(sums[..., 1], 1e-300))
    return np.asarray(mean_precision(sums) * np.exp(log_brevity))


def mean_precision(statistics: Counts) -> Values:
    """BLEU without its brevity penalty, the geometric mean of precisions, *Shape:* (..., 9) -> (...).

    Of 1- to 4-grams, 0 to 100; 0 where some order has no match.
    """
    sums = np.asarray(statistics, np.float64)
    matches, totals = sums[..., 0:-1:2], sums[..., 1:-1:2]
    zero = (matches <= 0).any(axis=-1)
    log_precision = np.log(np.maximum(matches, 1e-300) / np.maximum(totals, 1e-300)).mean(axis=-1)
    return np.where(zero, 0.0, 100 * np.exp(log_precision))


def log_sentence_bleu(statistics: Counts, added_reference_words: int = 0) -> Values:
    """Log of BLEU+1 (0 to 1) of each hypothesis, *Shape:* (n, 9) -> (n,).

    One is added to the counts of orders above 1 (Lin & Och 2004). One added reference word lengthens the
    reference like the counts; otherwise short output is favoured (Nakov et al. 2012).
    """
    rows = statistics.astype(np.float64)
    added = np.array([0.0, 1.0, 1.0, 1.0])
    matches, totals = rows[:, 0:-1:2] + added, rows[:, 1:-1:2] + added
    precision = np.log(np.maximum(matches, TINY) / np.maximum(totals, TINY)).mean(axis=1)
    reference_words = rows[:, -1] + added_reference_words
    brevity = np.minimum(0.0, 1 - reference_words / np.maximum(rows[:, 1], TINY))
    return np.asarray(precision + brevity)


def precisions(statistics: Sums) -> Values:
    """n-gram precisions, 0 to 100, of summed statistics, *Shape:* (9,) -> (4,)."""
    return 100 * statistics[0:-1:2] / np.maximum(statistics[1:-1:2], 1)


def length_ratio(statistics: Sums) -> float:
    """Hypothesis words for one reference word."""
    return float(statistics[1] / max(1, statistics[-1]))
