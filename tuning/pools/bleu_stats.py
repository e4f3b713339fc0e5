"""BLEU's sufficient statistics, as Moses's extractor counts them, and BLEU from their sum.

The statistics of a hypothesis are nine whole numbers: matches and totals of 1- to 4-grams in turn,
then the closest reference length (ties to the shorter): `mert/BleuScorer.cpp`, `mert/Reference.h:86`.
They add up over sentences, so scoring, tuning and testing all start from one array.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, count_lines, read_lines
from moses_bridge.compiled.inner import inner
from moses_bridge.compiled.kept_code import njit, njit_by_numbers
from moses_bridge.compiled.notice import CompilationNotice

MAX_ORDER = 4  # Papineni et al. (2002), section 2.3
N_STATISTICS = 2 * MAX_ORDER + 1  # matches and totals, and the reference length
WHAT_IS_COMPILED = "the count of n-grams (some seconds)"
TINY = 1e-9  # replaces a count of 0 in logarithms and quotients

Statistics = NDArray[np.int32]
Sums = NDArray[np.int64]


class _WordNumbers(dict[bytes, int]):
    """Words numbered in the order of their first use; the empty word between two blanks has no number."""

    def __missing__(self, word: bytes) -> int:
        self[word] = number = len(self)
        return number

    def encode(self, texts: Iterable[bytes]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Numbers of all words of the texts, and where each text begins (and the last one ends)."""
        words: list[int] = []
        offsets = [0]
        number = self.__getitem__
        for text in texts:
            words.extend(map(number, filter(None, text.split(b" "))))
            offsets.append(len(words))
        return np.array(words, np.int32), np.array(offsets, np.int64)


class References:
    """Reference translations of a text, ready for counting.

    Args:
        sentences: for each sentence its references, tokens separated by blanks.
    """

    def __init__(self, sentences: Sequence[Sequence[bytes]]) -> None:
        self._numbers = _WordNumbers()
        self._words, self._offsets = self._numbers.encode(
            text for texts in sentences for text in texts
        )
        self._firsts = np.cumsum([0, *map(len, sentences)])

    @classmethod
    def read(cls, paths: Sequence[StrPath], source: StrPath | None = None) -> References:
        """Read one file a reference, one sentence a line.

        Args:
            paths: the files.
            source: the translated text, if known.

        Raises:
            InputError: a file has no lines, or another number of them than the source or the first file.
        """
        return cls(read_references(paths, source))

    @property
    def metric(self) -> BleuMetric:
        """BLEU."""
        return BLEU

    def __len__(self) -> int:
        return len(self._firsts) - 1

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> Statistics:
        """Statistics of hypotheses.

        Args:
            hypotheses: sentence number and tokens of each.

        Returns:
            *Shape:* (n_hypotheses, 9).
        """
        pairs = list(hypotheses)
        words, offsets = self._numbers.encode(text for _, text in pairs)
        sentences = np.array([number for number, _ in pairs], np.int64)
        if len(pairs) and not 0 <= sentences.min() <= sentences.max() < len(self):
            raise IndexError(f"sentences 0 to {len(self) - 1} have references, not all of these")
        rows = np.zeros((len(pairs), N_STATISTICS), np.int32)
        with CompilationNotice(WHAT_IS_COMPILED):
            _count(words, offsets, sentences, self._words, self._offsets, self._firsts, rows)
        return rows

    def output_statistics(self, path: StrPath) -> Statistics:
        """Statistics of a file of translations, *Shape:* (n_sentences, 9).

        Raises:
            InputError: the file has another number of lines than the references.
        """
        lines = list(read_lines(path))
        refuse_other_length(path, lines, len(self))
        return self.statistics(enumerate(lines))


def read_references(
    paths: Sequence[StrPath], source: StrPath | None = None
) -> list[tuple[bytes, ...]]:
    """The references of each sentence, from one file a reference; see `References.read`."""
    model = paths[0] if source is None else source
    n_lines = count_lines(model)
    if not n_lines:
        raise InputError(model, None, "no lines", "a line for each sentence")
    texts = [list(read_lines(path)) for path in paths]
    for path, lines in zip(paths, texts, strict=True):
        if len(lines) != n_lines:
            expected = f"{n_lines}, as {os.fspath(model)} has"
            raise InputError(path, None, f"{len(lines)} lines", expected)
    return list(zip(*texts, strict=True))


def refuse_other_length(path: StrPath, lines: Sequence[bytes], n_sentences: int) -> None:
    """Refuse translations of a text with another number of sentences.

    Raises:
        InputError: there are more or fewer lines than sentences.
    """
    if len(lines) != n_sentences:
        raise InputError(path, None, f"{len(lines)} lines", f"{n_sentences}, as the reference")


@njit()
def _count(words, offsets, sentences, ref_words, ref_offsets, firsts, rows):  # type: ignore[no-untyped-def]
    """Fill the statistics of each hypothesis.

    Args:
        words: of all hypotheses, *Shape:* (n_words,).
        offsets: first word of each hypothesis, *Shape:* (n_hypotheses + 1,).
        sentences: sentence of each hypothesis, *Shape:* (n_hypotheses,).
        ref_words: of all references, *Shape:* (n_ref_words,).
        ref_offsets: first word of each reference, *Shape:* (n_references + 1,).
        firsts: first reference of each sentence, *Shape:* (n_sentences + 1,).
        rows: filled, *Shape:* (n_hypotheses, 9).
    """
    earlier = np.zeros(MAX_ORDER, np.int64)
    in_reference = np.zeros(MAX_ORDER, np.int64)
    most = np.zeros(MAX_ORDER, np.int64)
    for h in range(len(sentences)):
        text = words[offsets[h] : offsets[h + 1]]
        first, last = firsts[sentences[h]], firsts[sentences[h] + 1]
        row = rows[h]
        for order in range(MAX_ORDER):
            row[2 * order + 1] = max(0, len(text) - order)
        for i in range(len(text)):
            _occurrences(text, i, text, i, earlier)
            most[:] = 0
            for r in range(first, last):
                reference = ref_words[ref_offsets[r] : ref_offsets[r + 1]]
                _occurrences(text, i, reference, len(reference), in_reference)
                for order in range(MAX_ORDER):
                    most[order] = max(most[order], in_reference[order])
            for order in range(MAX_ORDER):
                row[2 * order] += most[order] > earlier[order]
        row[N_STATISTICS - 1] = closest_length(
            len(text), ref_offsets[first + 1 : last + 1] - ref_offsets[first:last]
        )


@njit()
def _occurrences(ngrams, start, text, n_places, counts):  # type: ignore[no-untyped-def]
    """How often the 1- to 4-grams at a place of one text begin in the first places of another."""
    counts[:] = 0
    for place in range(n_places):
        longest = min(MAX_ORDER, len(ngrams) - start, len(text) - place)
        for k in range(longest):
            if ngrams[start + k] != text[place + k]:
                break
            counts[k] += 1


@njit()
def closest_length(length, reference_lens):  # type: ignore[no-untyped-def]
    """The reference length nearest to a length; of two, the shorter."""
    best = reference_lens[0]
    for other in reference_lens[1:]:
        nearer = abs(other - length) - abs(best - length)
        if nearer < 0 or (nearer == 0 and other < best):
            best = other
    return best


def bleu(statistics: NDArray[np.integer[Any]] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Corpus BLEU, 0 to 100, of summed statistics; 0 where some order has no match (multi-bleu).

    Papineni et al. (2002), section 2.3; no smoothing.

    Args:
        statistics: sums, *Shape:* (..., 9).

    Returns:
        *Shape:* (...).
    """
    sums = np.asarray(statistics, np.float64)
    log_brevity = np.minimum(0.0, 1 - sums[..., -1] / np.maximum(sums[..., 1], 1e-300))
    return np.asarray(mean_precision(sums) * np.exp(log_brevity))


def mean_precision(
    statistics: NDArray[np.integer[Any]] | NDArray[np.float64],
) -> NDArray[np.float64]:
    """BLEU without its brevity penalty: the geometric mean of the 1- to 4-gram precisions, 0 to 100.

    Args:
        statistics: sums, *Shape:* (..., 9).

    Returns:
        *Shape:* (...); 0 where some order has no match.
    """
    sums = np.asarray(statistics, np.float64)
    matches, totals = sums[..., 0:-1:2], sums[..., 1:-1:2]
    zero = (matches <= 0).any(axis=-1)
    log_precision = np.log(np.maximum(matches, 1e-300) / np.maximum(totals, 1e-300)).mean(axis=-1)
    return np.where(zero, 0.0, 100 * np.exp(log_precision))


def log_sentence_bleu(
    statistics: NDArray[np.integer[Any]] | NDArray[np.float64], added_reference_words: int = 0
) -> NDArray[np.float64]:
    """Log of BLEU+1 (0 to 1) of each hypothesis: one added to the counts of orders above 1 (Lin & Och 2004).

    Args:
        statistics: *Shape:* (n, 9).
        added_reference_words: 1 lengthens the reference like the counts; otherwise short output is
            favoured (Nakov et al. 2012).

    Returns:
        *Shape:* (n,).
    """
    rows = statistics.astype(np.float64)
    added = np.array([0.0, 1.0, 1.0, 1.0])
    matches, totals = rows[:, 0:-1:2] + added, rows[:, 1:-1:2] + added
    precision = np.log(np.maximum(matches, TINY) / np.maximum(totals, TINY)).mean(axis=1)
    reference_words = rows[:, -1] + added_reference_words
    brevity = np.minimum(0.0, 1 - reference_words / np.maximum(rows[:, 1], TINY))
    return np.asarray(precision + brevity)


def precisions(statistics: Sums) -> NDArray[np.float64]:
    """n-gram precisions, 0 to 100, of summed statistics, *Shape:* (9,) -> (4,)."""
    return 100 * statistics[0:-1:2] / np.maximum(statistics[1:-1:2], 1)


def length_ratio(statistics: Sums) -> float:
    """Hypothesis words for one reference word."""
    return float(statistics[1] / max(1, statistics[-1]))


@dataclass(frozen=True)
class BleuMetric:
    """BLEU as a metric to tune for; see `tuning.pools.metric.Metric`."""

    name: str = "bleu"
    label: str = "BLEU"
    sign: int = 1

    def value(self, sums: NDArray[np.integer[Any]] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Corpus BLEU; see `bleu`."""
        return bleu(sums)

    def level(self, value: float) -> float:
        """Log BLEU (0 to 1) of BLEU (0 to 100)."""
        return float(np.log(value / 100)) if value > 0 else -np.inf

    def along(
        self,
        statistics: NDArray[np.integer[Any]] | NDArray[np.float64],
        firsts: NDArray[np.int32],
        losers: NDArray[np.int32],
        winners: NDArray[np.int32],
    ) -> NDArray[np.float64]:
        """Log BLEU (0 to 1) in each interval of a line; -infinity where some order has no match."""
        products, brevity = np.empty(len(losers) + 1), np.empty(len(losers) + 1)
        _fill_bleu(statistics, firsts, losers, winners, products, brevity)
        with np.errstate(divide="ignore"):
            return np.asarray(0.25 * np.log(products) + brevity)

    def quality(
        self, statistics: NDArray[np.integer[Any]] | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """BLEU+1 (0 to 1) of each hypothesis, with a longer reference; see `log_sentence_bleu`."""
        return np.exp(log_sentence_bleu(statistics, added_reference_words=1))

    def oracle_order(
        self, statistics: NDArray[np.integer[Any]] | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Log of BLEU+1 of each hypothesis."""
        return log_sentence_bleu(statistics)

    def gains(self, statistics: NDArray[np.integer[Any]] | NDArray[np.float64]) -> None:
        """None: the optimisers use the sums of BLEU."""


BLEU = BleuMetric()


@njit_by_numbers(nogil=True)
def _fill_bleu(statistics, firsts, losers, winners, products, brevity):  # type: ignore[no-untyped-def]
    """Fill the product of the precisions and the log of the brevity penalty; see `BleuMetric.along`."""
    now = np.zeros(N_STATISTICS)
    for first in firsts:
        for k in range(N_STATISTICS):
            now[k] += statistics[first, k]
    products[0], brevity[0] = _factors(now)
    for i in range(len(losers)):
        for k in range(N_STATISTICS):
            now[k] += statistics[winners[i], k] - statistics[losers[i], k]
        products[i + 1], brevity[i + 1] = _factors(now)


@inner
def _factors(sums: Any) -> tuple[float, float]:
    """The product of the precisions of corpus BLEU, and the log of its brevity penalty."""
    product = 1.0
    for order in range(MAX_ORDER):
        if sums[2 * order] <= 0:
            return 0.0, 0.0
        product *= sums[2 * order] / sums[2 * order + 1]
    return product, min(0.0, 1.0 - sums[8] / sums[1])
