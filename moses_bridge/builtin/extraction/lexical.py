"""Probabilities of linked words, counted like train-model.perl's step 4, and the scores of phrase pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFiles, SpilledRows, parts
from moses_bridge.base.choices import Smoothing
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.textio import StrPath, write_lines
from moses_bridge.builtin.extraction.aligned_corpus import WORDS_AT_ONCE, AlignedCorpus, Links, Text
from moses_bridge.builtin.extraction.pair_counts import PairCounts
from moses_bridge.formats.row_columns import (
    DIRECT_LEXICAL,
    DIRECT_PROB,
    INVERSE_LEXICAL,
    INVERSE_PROB,
)

NULL = b"NULL"
N_DECIMALS = 7  # train-model.perl prints "%.7f", and the scorer reads that
HIGHEST_COUNT_OF_COUNTS = 10  # greater counts are not discounted
DISCOUNT_FLOOR = 0.01  # d_0, below which no other one falls
PAIRS_AT_ONCE = 1 << 18  # some 13 MB of pairs


@dataclass(frozen=True)
class LexicalTable:
    """Linked word pairs and their probabilities.

    A word without any link counts as linked once to NULL, whose number on either side is one above the last of
    the vocabulary.

    Attributes:
        sources, targets: (n_pairs,) numbers of the words, ascending.
        source_given_target, target_given_source: (n_pairs,) probabilities, relative frequencies
            rounded to 7 decimals as in the files read by Moses's scorer.
        n_targets: number of target words, NULL included.
        counts: (n_pairs,) number of links.
    """

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    source_given_target: NDArray[np.float64]
    target_given_source: NDArray[np.float64]
    n_targets: int
    counts: NDArray[np.int64]

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        return self.sources * self.n_targets + self.targets

    def rows_of(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of word pairs known to be in the table."""
        return np.searchsorted(self._keys, sources * self.n_targets + targets)


class LinkProbs(NamedTuple):
    """Probabilities of one direction: p(word | linked word), p(word | NULL)."""

    links: NDArray[np.float64]  # (n_links,) in the order of `Links.others` of the word's side
    null: NDArray[np.float64]  # (n_words,) of each running word without a link, else 0


class _Linked(NamedTuple):
    """Words of one side, once for each link in the order of the text, and their linked words."""

    words: NDArray[np.int64]
    others: NDArray[np.int64]
    is_link: NDArray[np.bool_]  # False for the NULL of a word without link
    firsts: NDArray[np.int64]  # (n_words,) place of the first link of each running word


def _linked(text: Text, other: Text, links: Links) -> Iterator[_Linked]:
    for first, end in parts(len(text.words), WORDS_AT_ONCE):
        starts = links.starts[first : end + 1]
        n_links = np.diff(starts)
        sizes = np.maximum(n_links, 1)
        words = np.repeat(text.words[first:end], sizes).astype(np.int64)
        is_link = np.repeat(n_links > 0, sizes)
        others = np.full(len(words), len(other.vocabulary))
        others[is_link] = other.words[links.others[starts[0] : starts[-1]]]
        yield _Linked(words, others, is_link, np.cumsum(sizes) - sizes)


def lexical_table(corpus: AlignedCorpus) -> LexicalTable:
    """Count the links of the whole corpus; distinct word pairs are in memory, some 100 bytes each."""
    n_sources = len(corpus.source.vocabulary) + 1
    n_targets = len(corpus.target.vocabulary) + 1
    keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    for part in _linked(corpus.target, corpus.source, corpus.of_target):
        keys, counts = _added(keys, counts, part.others * n_targets + part.words)
    for part in _linked(corpus.source, corpus.target, corpus.of_source):
        bare = part.words[~part.is_link]
        keys, counts = _added(keys, counts, bare * n_targets + n_targets - 1)
    row_sources, row_targets = np.divmod(keys, n_targets)
    of_sources = np.bincount(row_sources, counts, minlength=n_sources)
    of_targets = np.bincount(row_targets, counts, minlength=n_targets)
    return LexicalTable(
        row_sources,
        row_targets,
        np.round(counts / of_targets[row_targets], N_DECIMALS),
        np.round(counts / of_sources[row_sources], N_DECIMALS),
        n_targets,
        counts,
    )


def _added(
    keys: NDArray[np.int64], counts: NDArray[np.int64], more: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add more keys to distinct ascending ones with counts; return both anew."""
    new_keys, new_counts = np.unique(more, return_counts=True)
    both, places = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
    totals = np.zeros(len(both), np.int64)
    totals[places[: len(keys)]] = counts
    totals[places[len(keys) :]] += new_counts
    return both, totals


def link_probs(
    corpus: AlignedCorpus, table: LexicalTable, directory: Path
) -> tuple[LinkProbs, LinkProbs]:
    """p(source | target word) of the source words' links, p(target | source word) of the target words'.

    They are in files in `directory`.
    """
    sources = _linked(corpus.source, corpus.target, corpus.of_source)
    targets = _linked(corpus.target, corpus.source, corpus.of_target)
    inverse = ((part, table.rows_of(part.words, part.others)) for part in sources)
    direct = ((part, table.rows_of(part.others, part.words)) for part in targets)
    return (
        _beside_links(table.source_given_target, inverse, directory),
        _beside_links(table.target_given_source, direct, directory),
    )


def _beside_links(
    probs: NDArray[np.float64], rows: Iterable[tuple[_Linked, NDArray[np.int64]]], directory: Path
) -> LinkProbs:
    with ArrayFiles(directory) as files:
        links, nulls = files.new(np.float64), files.new(np.float64)
        for part, of_part in rows:
            links.append(probs[of_part[part.is_link]])
            of_words = probs[of_part[part.firsts]]
            nulls.append(np.where(part.is_link[part.firsts], 0.0, of_words))
        return LinkProbs(links.mapped(), nulls.mapped())


def write_lexical_tables(
    corpus: AlignedCorpus, table: LexicalTable, e2f: StrPath, f2e: StrPath
) -> None:
    """Write `lex.e2f` (source target p(source|target)) and `lex.f2e` (target source p(target|source)).

    The rows are Moses's, in ascending order instead of that of a hash.
    """
    sources, targets = [*corpus.source.vocabulary, NULL], [*corpus.target.vocabulary, NULL]
    columns = table.sources, table.targets, table.source_given_target
    rows = zip(*(column.tolist() for column in columns), strict=True)
    write_lines(e2f, (b"%b %b %.7f" % (sources[i], targets[j], prob) for i, j, prob in rows))
    order = np.lexsort((table.sources, table.targets))
    columns = table.sources, table.targets, table.target_given_source
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    write_lines(f2e, (b"%b %b %.7f" % (targets[j], sources[i], prob) for i, j, prob in rows))


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
