"""BLEU's sufficient statistics, as Moses's extractor counts them, and BLEU from their sum.

The statistics of a hypothesis are nine whole numbers: matches and totals of 1- to 4-grams in turn,
then the closest reference length (ties to the shorter): `mert/BleuScorer.cpp`, `mert/Reference.h:86`.
They add up over sentences, so scoring, tuning and testing all start from one array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.errors import InputError
from moses_bridge.textio import StrPath, read_lines

MAX_ORDER = 4
N_STATISTICS = 2 * MAX_ORDER + 1

Statistics = NDArray[np.int64]


class References:
    """Reference translations of a text, ready for counting.

    Args:
        sentences: for each sentence its references, tokens separated by single blanks.
    """

    def __init__(self, sentences: Sequence[Sequence[bytes]]) -> None:
        self._ids: dict[bytes, int] = {}
        self.sentences = [[self._encode(text) for text in texts] for texts in sentences]

    @classmethod
    def read(cls, paths: Sequence[StrPath]) -> References:
        """Read one file a reference, one sentence a line.

        Raises:
            InputError: a file has another number of lines than the first.
        """
        texts = [list(read_lines(path)) for path in paths]
        for path, lines in zip(paths, texts, strict=True):
            if len(lines) != len(texts[0]):
                raise InputError(
                    path, None, f"{len(lines)} lines", f"{len(texts[0])}, as the first"
                )
        return cls(list(zip(*texts, strict=True)))

    def __len__(self) -> int:
        return len(self.sentences)

    def _encode(self, text: bytes) -> NDArray[np.int64]:
        ids = self._ids
        return np.array([ids.setdefault(word, len(ids)) for word in _tokens(text)], np.int64)

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> Statistics:
        """Statistics of hypotheses.

        Args:
            hypotheses: sentence number and tokens of each.

        Returns:
            *Shape:* (n_hypotheses, 9).
        """
        rows = [self._count(self.sentences[number], text) for number, text in hypotheses]
        return np.array(rows, np.int64).reshape(len(rows), N_STATISTICS)

    def _count(self, references: list[NDArray[np.int64]], text: bytes) -> Statistics:
        get = self._ids.get
        words: list[int] = []
        fresh = -1
        seen: dict[bytes, int] = {}
        for word in _tokens(text):
            number = get(word)
            if number is None:
                number = seen.setdefault(word, fresh)
                fresh = -1 - len(seen)
            words.append(number)
        row = np.zeros(N_STATISTICS, np.int64)
        encoded = np.array(words, np.int64)
        for reference in references[:1] if len(references) == 1 else ():
            _count_one(encoded, reference, row)
        if len(references) > 1:
            _count_many(encoded, references, row)
        row[-1] = closest_length(len(words), [len(reference) for reference in references])
        return row


def _tokens(text: bytes) -> list[bytes]:
    return [word for word in text.split(b" ") if word]


def closest_length(length: int, reference_lens: Sequence[int]) -> int:
    """The reference length nearest to a length; of two, the shorter."""
    return min(reference_lens, key=lambda other: (abs(other - length), other))


@njit(cache=True)
def _count_one(hypothesis, reference, row):  # type: ignore[no-untyped-def]
    """Clipped matches against one reference: the k-th copy of an n-gram counts if it has k copies."""
    for order in range(1, MAX_ORDER + 1):
        n_ngrams = max(0, len(hypothesis) - order + 1)
        row[2 * order - 1] = n_ngrams
        for i in range(n_ngrams):
            earlier = _occurrences(hypothesis, i, order, hypothesis, i)
            if _occurrences(hypothesis, i, order, reference, len(reference) - order + 1) > earlier:
                row[2 * order - 2] += 1


@njit(cache=True)
def _occurrences(ngrams, start, order, text, n_places):  # type: ignore[no-untyped-def]
    count = 0
    for place in range(n_places):
        same = True
        for k in range(order):
            if ngrams[start + k] != text[place + k]:
                same = False
                break
        count += same
    return count


def _count_many(
    hypothesis: NDArray[np.int64], references: list[NDArray[np.int64]], row: Statistics
) -> None:
    """Clipping by the largest count in any reference."""
    for order in range(1, MAX_ORDER + 1):
        n_ngrams = max(0, len(hypothesis) - order + 1)
        row[2 * order - 1] = n_ngrams
        for i in range(n_ngrams):
            earlier = _occurrences(hypothesis, i, order, hypothesis, i)
            most = max(
                _occurrences(hypothesis, i, order, reference, len(reference) - order + 1)
                for reference in references
            )
            row[2 * order - 2] += most > earlier


def bleu(statistics: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Corpus BLEU, 0 to 100, of summed statistics; 0 where some order has no match (multi-bleu).

    Papineni et al. (2002), section 2.3; no smoothing.

    Args:
        statistics: sums, *Shape:* (..., 9).

    Returns:
        *Shape:* (...).
    """
    sums = np.asarray(statistics, np.float64)
    matches, totals = sums[..., 0:-1:2], sums[..., 1:-1:2]
    zero = (matches <= 0).any(axis=-1)
    log_precision = np.log(np.maximum(matches, 1e-300) / np.maximum(totals, 1e-300)).mean(axis=-1)
    log_brevity = np.minimum(0.0, 1 - sums[..., -1] / np.maximum(totals[..., 0], 1e-300))
    return np.where(zero, 0.0, 100 * np.exp(log_precision + log_brevity))


def precisions(statistics: Statistics) -> NDArray[np.float64]:
    """n-gram precisions, 0 to 100, of summed statistics, *Shape:* (9,) -> (4,)."""
    return 100 * statistics[0:-1:2] / np.maximum(statistics[1:-1:2], 1)


def length_ratio(statistics: Statistics) -> float:
    """Hypothesis words for one reference word."""
    return float(statistics[1] / max(1, statistics[-1]))


def evaluate_output(output: StrPath, references: Sequence[StrPath]) -> dict[str, object]:
    """BLEU (0 to 100), precisions and lengths of a file of translations.

    Raises:
        InputError: output and references have different numbers of lines.
    """
    reference = References.read(references)
    lines = list(read_lines(output))
    if len(lines) != len(reference):
        raise InputError(output, None, f"{len(lines)} lines", f"{len(reference)}, as the reference")
    sums = reference.statistics(enumerate(lines)).sum(axis=0)
    return {
        "bleu": float(bleu(sums)),
        "precisions": [float(value) for value in precisions(sums)],
        "length_ratio": length_ratio(sums),
        "output_words": int(sums[1]),
        "reference_words": int(sums[-1]),
    }
