"""The n-gram counts of BLEU and chrF, compiled; a module of its own, since numba is slow to load."""

from __future__ import annotations

from typing import Any

import numpy as np

from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.notice import CompilationNotice

COMPILING = CompilationNotice("the count of n-grams (some seconds)")
WORD_ORDER, CHARACTER_ORDER = 4, 6  # the longest n-grams of BLEU and of chrF


@njit()
def count_words(words, offsets, sentences, ref_words, ref_offsets, firsts, rows):  # type: ignore[no-untyped-def]
    """Fill `rows`, *Shape:* (n_hypotheses, 9), with the statistics of BLEU of each hypothesis.

    Offsets are the first words of texts, with the end of the last one: *Shape:* (n_texts + 1,). `sentences`
    has the sentence of each hypothesis, `firsts` the first reference of each sentence, *Shape:* (n_sentences
    + 1,).
    """
    earlier = np.zeros(WORD_ORDER, np.int64)
    in_reference = np.zeros(WORD_ORDER, np.int64)
    most = np.zeros(WORD_ORDER, np.int64)
    for h in range(len(sentences)):
        text = words[offsets[h] : offsets[h + 1]]
        first, last = firsts[sentences[h]], firsts[sentences[h] + 1]
        row = rows[h]
        for order in range(WORD_ORDER):
            row[2 * order + 1] = max(0, len(text) - order)
        for i in range(len(text)):
            _occurrences(text, i, text, i, earlier)
            most[:] = 0
            for r in range(first, last):
                reference = ref_words[ref_offsets[r] : ref_offsets[r + 1]]
                _occurrences(text, i, reference, len(reference), in_reference)
                for order in range(WORD_ORDER):
                    most[order] = max(most[order], in_reference[order])
            for order in range(WORD_ORDER):
                row[2 * order] += most[order] > earlier[order]
        row[2 * WORD_ORDER] = _closest_length(
            len(text), ref_offsets[first + 1 : last + 1] - ref_offsets[first:last]
        )


@njit()
def count_characters(text, reference, counts):  # type: ignore[no-untyped-def]
    """Fill the statistics of chrF of a text against a reference, *Shape of counts:* (18,)."""
    earlier = np.zeros(CHARACTER_ORDER, np.int64)
    in_reference = np.zeros(CHARACTER_ORDER, np.int64)
    for order in range(CHARACTER_ORDER):
        counts[3 * order + 1] = max(0, len(reference) - order)
        if counts[3 * order + 1]:  # sacreBLEU counts none against a reference without any
            counts[3 * order] = max(0, len(text) - order)
    for place in range(len(text)):
        _occurrences(text, place, text, place, earlier)
        _occurrences(text, place, reference, len(reference), in_reference)
        for order in range(CHARACTER_ORDER):
            counts[3 * order + 2] += in_reference[order] > earlier[order]


@inner
def _occurrences(ngrams, start, text, n_places, counts):  # type: ignore[no-untyped-def]
    """How often the n-grams at a place of one text begin in the first places of another."""
    counts[:] = 0
    for place in range(n_places):
        longest = min(len(counts), len(ngrams) - start, len(text) - place)
        for k in range(longest):
            if ngrams[start + k] != text[place + k]:
                break
            counts[k] += 1


def closest_length(length: Any, reference_lens: Any) -> Any:
    """The reference length nearest to a length; of two, the shorter."""
    best = reference_lens[0]
    for other in reference_lens[1:]:
        nearer = abs(other - length) - abs(best - length)
        if nearer < 0 or (nearer == 0 and other < best):
            best = other
    return best


_closest_length = inner(closest_length)


@njit(nogil=True)
def fill_bleu(statistics, firsts, losers, winners, products, brevity):  # type: ignore[no-untyped-def]
    """Fill the product of the precisions and the log of the brevity penalty; see `BleuMetric.along`."""
    now = np.zeros(2 * WORD_ORDER + 1)
    for first in firsts:
        for k in range(len(now)):
            now[k] += statistics[first, k]
    products[0], brevity[0] = _factors(now)
    for i in range(len(losers)):
        for k in range(len(now)):
            now[k] += statistics[winners[i], k] - statistics[losers[i], k]
        products[i + 1], brevity[i + 1] = _factors(now)


@inner
def _factors(sums: Any) -> tuple[float, float]:
    """The product of the precisions of corpus BLEU, and the log of its brevity penalty."""
    product = 1.0
    for order in range(WORD_ORDER):
        if sums[2 * order] <= 0:
            return 0.0, 0.0
        product *= sums[2 * order] / sums[2 * order + 1]
    return product, min(0.0, 1.0 - sums[8] / sums[1])
