"""Words and n-grams of the reference that outputs have, as in compare-mt (Neubig et al. 2019).

The accuracy of words by their frequency in the training text, and the n-grams that one system
matches more often than another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.text_lines import read_text_lines
from tuning.compare.comparison import NgramContrast, NgramMatches, WordAccuracy
from tuning.metrics.bleu import MAX_ORDER

FEWEST = (0, 1, 5, 10, 100, 1000)  # occurrences at which a class begins
MATCHED, OUTPUT, REFERENCE = range(3)


def count_words(training: Sequence[Path]) -> Counter[bytes]:
    """Occurrences of each word in tokenised texts; InputError if a text has no lines."""
    frequencies: Counter[bytes] = Counter()
    for path in training:
        n_lines = 0
        for line in read_text_lines(path):
            frequencies.update(_words(line))
            n_lines += 1
        if not n_lines:
            raise InputError(path, None, "no lines", "the target side of a training text")
    return frequencies


def word_accuracies(
    outputs: Sequence[Path], reference: Path, frequencies: Mapping[bytes, int]
) -> list[WordAccuracy]:
    """Precision, recall and F1 of the words of each class of training frequencies, means over outputs.

    A word of an output is right as often as it is in the sentence's reference, as in compare-mt
    (compare_mt/bucketers.py). A class without a right word has 0 for all three. Outputs, at least one, are
    tokenised as the reference is and have as many lines.
    """
    counts = np.array([_count(output, reference, frequencies) for output in outputs], np.float64)
    precision = _percentages(counts[..., MATCHED], counts[..., OUTPUT])
    recall = _percentages(counts[..., MATCHED], counts[..., REFERENCE])
    f1 = _percentages(2 * counts[..., MATCHED], counts[..., OUTPUT] + counts[..., REFERENCE])
    return [
        WordAccuracy(
            fewest=fewest,
            most=FEWEST[place + 1] - 1 if place + 1 < len(FEWEST) else None,
            n_reference_words=int(counts[0, place, REFERENCE]),
            precision=float(precision[:, place].mean()),
            recall=float(recall[:, place].mean()),
            f1=float(f1[:, place].mean()),
        )
        for place, fewest in enumerate(FEWEST)
    ]


def _count(output: Path, reference: Path, frequencies: Mapping[bytes, int]) -> NDArray[np.int64]:
    """Right words, words of the output and of the reference by class, *Shape:* (n_classes, 3)."""
    matched, found, expected = Counter[bytes](), Counter[bytes](), Counter[bytes]()
    for line, model in zip(read_text_lines(output), read_text_lines(reference), strict=True):
        of_line, of_model = Counter(_words(line)), Counter(_words(model))
        found.update(of_line)
        expected.update(of_model)
        for word in of_line.keys() & of_model.keys():
            matched[word] += min(of_line[word], of_model[word])
    counts = [[0, 0, 0] for _ in FEWEST]
    for word in found.keys() | expected.keys():
        own = counts[bisect_right(FEWEST, frequencies.get(word, 0)) - 1]
        own[MATCHED] += matched[word]
        own[OUTPUT] += found[word]
        own[REFERENCE] += expected[word]
    return np.array(counts, np.int64)


def _words(line: bytes) -> Iterator[bytes]:
    """Words as BLEU counts them: the non-empty parts between blanks."""
    return filter(None, line.split(b" "))


def _percentages(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> NDArray[np.float64]:
    return 100 * parts / np.maximum(wholes, 1)


N_SHOWN = 10


def contrast_ngrams(
    system: str, outputs: Sequence[Path], baseline_outputs: Sequence[Path], reference: Path
) -> NgramContrast:
    """The 1- to 4-grams with the largest differences in matches, of each sign.

    An n-gram of an output is matched as often as it is in the sentence's reference, as in compare-mt
    (compare_mt/ngram_utils.py). That program sorts by a smoothed ratio of both systems' matches, this
    function by their difference; of equal differences the longer n-gram is first. The outputs of the runs of
    both systems are tokenised as the reference is and have as many lines.
    """
    expected = [_ngrams(line) for line in read_text_lines(reference)]
    ours, theirs = _matches(outputs, expected), _matches(baseline_outputs, expected)
    n_ours, n_theirs = len(outputs), len(baseline_outputs)

    def lead(ngram: bytes) -> int:  # whole numbers, so that equal differences are equal
        return ours[ngram] * n_theirs - theirs[ngram] * n_ours

    def record(ngram: bytes) -> NgramMatches:
        return NgramMatches(
            ngram=ngram.decode("utf-8", "replace"),
            baseline=theirs[ngram] / n_theirs,
            system=ours[ngram] / n_ours,
            reference=sum(sentence[ngram] for sentence in expected),
        )

    def first(sign: int) -> list[NgramMatches]:
        """Those with the largest leads of one sign."""
        leads = {ngram: sign * lead(ngram) for ngram in ours.keys() | theirs.keys()}
        led = [ngram for ngram, size in leads.items() if size > 0]
        led.sort(key=lambda ngram: (-leads[ngram], -ngram.count(b" "), ngram))
        return [record(ngram) for ngram in led[:N_SHOWN]]

    return NgramContrast(system, first(1), first(-1))


def _matches(outputs: Sequence[Path], expected: Sequence[Counter[bytes]]) -> Counter[bytes]:
    matches: Counter[bytes] = Counter()
    for output in outputs:
        for line, reference in zip(read_text_lines(output), expected, strict=True):
            matches.update(_ngrams(line) & reference)
    return matches


def _ngrams(line: bytes) -> Counter[bytes]:
    words = [word for word in line.split(b" ") if word]
    return Counter(
        b" ".join(words[start : start + order])
        for order in range(1, MAX_ORDER + 1)
        for start in range(len(words) - order + 1)
    )
