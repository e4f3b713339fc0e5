"""The n-best lists of a pool as batch MIRA goes through them: a sentence at a time, column by column.

A loop over hypotheses that reads one column is made of vector operations by the compiler. Counts that depend
on the length of a hypothesis and on its reference alone are kept once for each pair of lengths in a sentence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.inner import inner
from tuning.pools.bleu_stats import MAX_ORDER, N_STATISTICS


class SentenceColumns(NamedTuple):
    """Lists by sentence; n hypotheses in all.

    Attributes:
        offsets: first hypothesis of each sentence, *Shape:* (n_sentences + 1,).
        features: those of sentence i from offsets[i] * n_features on, *Shape:* (n * n_features,): of all its
            hypotheses the first feature, then the second one.
        statistics: as in the pool, for the one hypothesis that is chosen, *Shape:* (n, n_statistics).
        gains: by another metric than BLEU, *Shape:* (n,); empty for BLEU, which has what follows.
        matches: of 1- to 4-grams, in the order of the features, *Shape:* (n * 4,).
        lengths: place of the hypothesis's totals among those of its sentence, *Shape:* (n,).
        totals: of 1- to 4-grams, and the reference length, each once a sentence, *Shape:* (n_totals, 5).
        total_offsets: first totals of each sentence, *Shape:* (n_sentences + 1,).
    """

    offsets: Any
    features: Any
    statistics: Any
    gains: Any
    matches: Any
    lengths: Any
    totals: Any
    total_offsets: Any


def sentence_columns(
    features: NDArray[np.float64],
    statistics: NDArray[Any],
    offsets: NDArray[np.int64],
    gains: NDArray[np.float64] | None = None,
) -> SentenceColumns:
    """Arrange the lists of a pool.

    Args:
        features: *Shape:* (n, n_features).
        statistics: of the metric, *Shape:* (n, n_statistics).
        offsets: first hypothesis of each sentence, *Shape:* (n_sentences + 1,).
        gains: by another metric than BLEU, *Shape:* (n,).
    """
    by_sentence = _columns_of(features, offsets)
    if gains is not None:
        nothing = np.empty((0, MAX_ORDER + 1), np.int32)
        places = np.empty(0, np.int32)
        ends = np.zeros_like(offsets)
        return SentenceColumns(
            offsets, by_sentence, gains[:, None], gains, places, places, nothing, ends
        )
    counts = np.asarray(statistics)
    matches = _columns_of(counts[:, 0 : N_STATISTICS - 1 : 2], offsets)
    lengths, totals, ends = _distinct_totals(counts, offsets)
    return SentenceColumns(
        offsets, by_sentence, counts, np.empty(0), matches, lengths, totals, ends
    )


@njit(cache=True)
def _columns_of(rows, offsets):  # type: ignore[no-untyped-def]
    """The rows of each sentence turned into columns, one after the other."""
    n_columns = rows.shape[1]
    columns = np.empty(rows.size, rows.dtype)
    at = 0
    for sentence in range(len(offsets) - 1):
        for column in range(n_columns):
            for row in range(offsets[sentence], offsets[sentence + 1]):
                columns[at] = rows[row, column]
                at += 1
    return columns


@njit(cache=True)
def _distinct_totals(counts, offsets):  # type: ignore[no-untyped-def]
    """Places of totals, the totals, and where those of each sentence begin: see `SentenceColumns`."""
    lengths = np.empty(len(counts), np.int32)
    totals = np.empty((len(counts), MAX_ORDER + 1), counts.dtype)
    ends = np.zeros_like(offsets)
    n_totals = 0
    for sentence in range(len(offsets) - 1):
        first = n_totals
        for row in range(offsets[sentence], offsets[sentence + 1]):
            for order in range(MAX_ORDER):
                totals[n_totals, order] = counts[row, 2 * order + 1]
            totals[n_totals, MAX_ORDER] = counts[row, N_STATISTICS - 1]
            place = first
            while not _are_equal(totals[place], totals[n_totals]):
                place += 1
            lengths[row] = place - first
            n_totals += place == n_totals
        ends[sentence + 1] = n_totals
    return lengths, totals[:n_totals].copy(), ends


@inner
def _are_equal(first, second):  # type: ignore[no-untyped-def]
    n_equal = 0
    for i in range(len(first)):
        n_equal += first[i] == second[i]
    return n_equal == len(first)
