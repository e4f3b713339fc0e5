"""The n-best lists of a pool as batch MIRA goes through them: a sentence at a time, column by column.

A loop over hypotheses that reads one column is made of vector operations by the compiler. In a sentence equal
statistics are kept once: of the hypotheses of a pool a third have statistics of their own. So are counts that
depend on the length of a hypothesis and on its reference alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.compiled.inner import inner
from moses_bridge.compiled.kept_code import njit
from tuning.pools.bleu_stats import MAX_ORDER, N_STATISTICS

MATCHES = slice(0, N_STATISTICS - 1, 2)  # columns of the statistics
TOTALS = [*range(1, N_STATISTICS, 2), N_STATISTICS - 1]  # and of the reference length


class SentenceColumns(NamedTuple):
    """Lists by sentence; n hypotheses in all.

    Attributes:
        offsets: first hypothesis of each sentence, *Shape:* (n_sentences + 1,).
        features: those of sentence i from offsets[i] * n_features on, *Shape:* (n * n_features,): of all its
            hypotheses the first feature, then the second one.
        statistics: as in the pool, for the one hypothesis that is chosen, *Shape:* (n, n_statistics).
        gains: by another metric than BLEU, *Shape:* (n,); empty for BLEU, which has what follows `kinds`.
        kinds: place of the hypothesis's statistics among the distinct ones of its sentence, *Shape:* (n,).
        kind_offsets: first distinct statistics of each sentence, *Shape:* (n_sentences + 1,).
        matches: of 1- to 4-grams, in the order of the features, *Shape:* (n_kinds * 4,).
        lengths: place of the statistics' totals among those of the sentence, *Shape:* (n_kinds,).
        totals: of 1- to 4-grams, and the reference length, each once a sentence, *Shape:* (n_totals, 5).
        total_offsets: first totals of each sentence, *Shape:* (n_sentences + 1,).
    """

    offsets: Any
    features: Any
    statistics: Any
    gains: Any
    kinds: Any
    kind_offsets: Any
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
        of_each = np.arange(len(gains)) - np.repeat(offsets[:-1], np.diff(offsets))
        none = np.empty(0, np.int32)
        return SentenceColumns(
            offsets, by_sentence, gains[:, None], gains, of_each.astype(np.int32), offsets, none, none,
            nothing, np.zeros_like(offsets),
        )  # fmt: skip
    counts = np.asarray(statistics)
    kinds, distinct, kind_offsets = _distinct(counts, offsets)
    matches = _columns_of(distinct[:, MATCHES], kind_offsets)
    lengths, totals, total_offsets = _distinct(
        np.ascontiguousarray(distinct[:, TOTALS]), kind_offsets
    )
    return SentenceColumns(
        offsets, by_sentence, counts, np.empty(0), kinds, kind_offsets, matches, lengths, totals,
        total_offsets,
    )  # fmt: skip


@njit()
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


@njit()
def _distinct(rows, offsets):  # type: ignore[no-untyped-def]
    """The distinct rows of each sentence.

    Returns:
        The place of each row among the distinct ones of its sentence, these, and where they begin.
    """
    places = np.empty(len(rows), np.int32)
    distinct = np.empty_like(rows)
    starts = np.zeros_like(offsets)
    n_distinct = 0
    for sentence in range(len(offsets) - 1):
        first = n_distinct
        for row in range(offsets[sentence], offsets[sentence + 1]):
            for column in range(rows.shape[1]):
                distinct[n_distinct, column] = rows[row, column]
            place = first
            while not _are_equal(distinct[place], rows[row]):
                place += 1
            places[row] = place - first
            n_distinct += place == n_distinct
        starts[sentence + 1] = n_distinct
    return places, distinct[:n_distinct].copy(), starts


@inner
def _are_equal(first, second):  # type: ignore[no-untyped-def]
    n_equal = 0
    for i in range(len(first)):
        n_equal += first[i] == second[i]
    return n_equal == len(first)
