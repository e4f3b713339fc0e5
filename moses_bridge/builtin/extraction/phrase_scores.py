"""The four scores of a phrase pair: relative frequencies and lexical weights in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import SpilledRows
from moses_bridge.base.choices import Smoothing
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus, Links
from moses_bridge.builtin.extraction.lexical import LexicalTable, LinkProbs, link_probs
from moses_bridge.builtin.extraction.pair_counts import PairCounts
from moses_bridge.formats.row_columns import (
    DIRECT_LEXICAL,
    DIRECT_PROB,
    INVERSE_LEXICAL,
    INVERSE_PROB,
)

HIGHEST_COUNT_OF_COUNTS = 10  # greater counts are not discounted
DISCOUNT_FLOOR = 0.01  # d_0, below which no other one falls
PAIRS_AT_ONCE = 1 << 18  # some 13 MB of pairs


@dataclass(frozen=True)
class PairScorer:
    """Scores phrase pairs; its memory does not depend on their number."""

    corpus: AlignedCorpus
    source_probs: LinkProbs
    target_probs: LinkProbs
    discounts: NDArray[np.float32]  # (10,) factor for each count up to 9

    def scores(self, pairs: PairCounts) -> NDArray[np.float64]:
        """(n_pairs, 4) p(f|e), lex(f|e), p(e|f), lex(e|f); f is the source, e the target."""
        counts = discounted_counts(pairs.counts, self.discounts)
        scores = np.empty((len(counts), 4))
        scores[:, INVERSE_PROB] = counts / pairs.target_counts.astype(np.float32)
        scores[:, INVERSE_LEXICAL] = _lexical_weights(
            pairs.source_view_starts, pairs.source_lens, self.corpus.of_source, self.source_probs
        )
        scores[:, DIRECT_PROB] = counts / pairs.source_counts.astype(np.float32)
        scores[:, DIRECT_LEXICAL] = _lexical_weights(
            pairs.target_starts, pairs.target_lens, self.corpus.of_target, self.target_probs
        )
        return scores


def pair_scorer(
    corpus: AlignedCorpus,
    pairs: SpilledRows[PairCounts],
    table: LexicalTable,
    smoothing: Smoothing,
    directory: Path,
) -> PairScorer:
    """The scorer of a corpus's pairs, with counts of counts over all of them.

    Probabilities of words are in anonymous files in `directory`, 16 bytes a link and 8 a word.
    """
    discounts = np.ones(HIGHEST_COUNT_OF_COUNTS, np.float32)
    if smoothing == "good-turing":
        discounts = good_turing_discounts(_counts_of_counts(pairs))
    return PairScorer(corpus, *link_probs(corpus, table, directory), discounts)


def _counts_of_counts(pairs: SpilledRows[PairCounts]) -> NDArray[np.int64]:
    """(11,) numbers of pairs with 0 to 10 occurrences."""
    n_counts = HIGHEST_COUNT_OF_COUNTS + 1
    total = np.zeros(n_counts, np.int64)
    for first in range(0, pairs.n_rows, PAIRS_AT_ONCE):
        block = pairs.read(first, min(first + PAIRS_AT_ONCE, pairs.n_rows))
        total += np.bincount(np.minimum(block.counts, n_counts), minlength=n_counts + 1)[:n_counts]
    return total


def discounted_counts(
    counts: NDArray[np.int32], discounts: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Counts times their Good-Turing discount; counts from 9 on stay."""
    small = counts < HIGHEST_COUNT_OF_COUNTS - 1
    adjusted = counts.astype(np.float32)
    adjusted[small] *= discounts[counts[small]]
    return adjusted


def good_turing_discounts(counts_of_counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Factor d_r for a count of r, r up to 9 (`consolidate-main.cpp` of Moses, `processFiles`).

    d_r = (r + 1) / r * (n_{r+1} + 0.1) / (n_r + 0.1), at most 1, at least d_{r-1}; d_0 = 0.01, where n_r is the
    number of distinct pairs with r occurrences, r from 0 to 10 at least.
    """
    n = counts_of_counts
    discounts = np.full(HIGHEST_COUNT_OF_COUNTS, DISCOUNT_FLOOR)
    for r in range(1, HIGHEST_COUNT_OF_COUNTS):
        raw = float(np.float32(r + 1) / np.float32(r)) * ((n[r + 1] + 0.1) / (n[r] + 0.1))
        discounts[r] = max(min(raw, 1.0), discounts[r - 1])
    return discounts.astype(np.float32)


@njit(nogil=True)
def _lexical_weights(starts: Any, lens: Any, links: Links, probs: LinkProbs) -> Any:
    """Product over words of the mean probability over a word's links (Koehn, Och and Marcu 2003, 3.3)."""
    products = np.ones(len(starts))
    for pair in range(len(starts)):
        for word in range(starts[pair], starts[pair] + lens[pair]):
            first, end = links.starts[word], links.starts[word + 1]
            if first == end:
                products[pair] *= probs.null[word]
                continue
            total = 0.0
            for k in range(first, end):
                total += probs.links[k]
            products[pair] *= total / (end - first)
    return products.astype(np.float32)  # like the half tables of Moses
