"""The n-grams of the reference matched more often by one system than by another.

The idea is that of compare-mt (Neubig et al. 2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from moses_bridge.base.textio import read_lines
from tuning.compare.comparison import NgramContrast, NgramMatches
from tuning.pools.bleu_stats import MAX_ORDER

N_SHOWN = 10


def contrast_ngrams(
    system: str, outputs: Sequence[Path], baseline_outputs: Sequence[Path], reference: Path
) -> NgramContrast:
    """The 1- to 4-grams with the largest differences in matches, of each sign.

    An n-gram of an output is matched as often as it is in the sentence's reference, as in compare-mt
    (compare_mt/ngram_utils.py). That program sorts by a smoothed ratio of both systems' matches, this function
    by their difference; of equal differences the longer n-gram is first.

    Args:
        system: name of the system.
        outputs: of its runs, tokenised as the reference is.
        baseline_outputs: of the runs of the system it is set against.
        reference: the reference, with as many lines.
    """
    expected = [_ngrams(line) for line in read_lines(reference)]
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
    """How often each n-gram is matched in all outputs together."""
    matches: Counter[bytes] = Counter()
    for output in outputs:
        for line, reference in zip(read_lines(output), expected, strict=True):
            matches.update(_ngrams(line) & reference)
    return matches


def _ngrams(line: bytes) -> Counter[bytes]:
    words = [word for word in line.split(b" ") if word]
    return Counter(
        b" ".join(words[start : start + order])
        for order in range(1, MAX_ORDER + 1)
        for start in range(len(words) - order + 1)
    )
