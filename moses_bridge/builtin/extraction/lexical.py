"""Word translation probabilities from linked text, counted like train-model.perl's step 4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFiles, parts
from moses_bridge.base.textio import StrPath, write_lines
from moses_bridge.builtin.extraction.aligned_corpus import WORDS_AT_ONCE, AlignedCorpus, Links, Text

NULL = b"NULL"
N_DECIMALS = 7  # train-model.perl prints "%.7f", and the scorer reads that


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
