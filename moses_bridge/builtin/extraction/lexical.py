"""Word translation probabilities from linked text, as train-model.perl step 4 counts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus, Links
from moses_bridge.textio import StrPath, write_lines

NULL = b"NULL"
N_DECIMALS = 7  # train-model.perl prints "%.7f", and the scorer reads that


@dataclass(frozen=True)
class LexicalTable:
    """Word pairs that were linked and their probabilities.

    A word without any link counts as linked once to NULL, whose number on either side is one
    above the last of the vocabulary.

    Attributes:
        sources, targets: (n_pairs,) numbers of the words, ascending.
        source_given_target, target_given_source: (n_pairs,) probabilities, relative frequencies
            rounded to 7 decimals as in the files that Moses's scorer reads.
        n_targets: how many target words there are, NULL included.
    """

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    source_given_target: NDArray[np.float64]
    target_given_source: NDArray[np.float64]
    n_targets: int

    def rows_of(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of word pairs that are known to be in the table."""
        keys = self.sources * self.n_targets + self.targets
        return np.searchsorted(keys, sources * self.n_targets + targets)


class LinkProbs(NamedTuple):
    """Probabilities of one direction laid out beside the links that they explain.

    Attributes:
        links: (n_links,) p(word | linked word), in the order of `Links.others` of the word's side.
        null: (n_words,) p(word | NULL) for each running word without a link, else 0.
    """

    links: NDArray[np.float64]
    null: NDArray[np.float64]


def lexical_table(corpus: AlignedCorpus) -> LexicalTable:
    """Count the links of the whole corpus."""
    n_sources = len(corpus.source.vocabulary) + 1
    n_targets = len(corpus.target.vocabulary) + 1
    n_links = _n_links(corpus.of_target)
    bare_sources = corpus.source.words[_n_links(corpus.of_source) == 0]
    bare_targets = corpus.target.words[n_links == 0]
    nulls_for_targets = np.full(len(bare_targets), n_sources - 1)
    nulls_for_sources = np.full(len(bare_sources), n_targets - 1)
    linked_sources = corpus.source.words[corpus.of_target.others]
    linked_targets = np.repeat(corpus.target.words, n_links)
    sources = np.concatenate((linked_sources, bare_sources, nulls_for_targets)).astype(np.int64)
    targets = np.concatenate((linked_targets, nulls_for_sources, bare_targets)).astype(np.int64)
    keys, counts = np.unique(sources * n_targets + targets, return_counts=True)
    row_sources, row_targets = np.divmod(keys, n_targets)
    return LexicalTable(
        row_sources,
        row_targets,
        np.round(counts / np.bincount(targets, minlength=n_targets)[row_targets], N_DECIMALS),
        np.round(counts / np.bincount(sources, minlength=n_sources)[row_sources], N_DECIMALS),
        n_targets,
    )


def _n_links(links: Links) -> NDArray[np.int64]:
    return np.diff(links.starts)


def target_link_probs(corpus: AlignedCorpus, table: LexicalTable) -> LinkProbs:
    """p(target word | source word) beside the links of the target words."""
    n_links = _n_links(corpus.of_target)
    targets = corpus.target.words.astype(np.int64)
    sources = corpus.source.words[corpus.of_target.others].astype(np.int64)
    bare = n_links == 0
    nulls = np.full(int(bare.sum()), len(corpus.source.vocabulary), np.int64)
    null_probs = np.zeros(len(targets))
    null_probs[bare] = table.target_given_source[table.rows_of(nulls, targets[bare])]
    linked_rows = table.rows_of(sources, np.repeat(targets, n_links))
    return LinkProbs(table.target_given_source[linked_rows], null_probs)


def source_link_probs(corpus: AlignedCorpus, table: LexicalTable) -> LinkProbs:
    """p(source word | target word) beside the links of the source words."""
    n_links = _n_links(corpus.of_source)
    sources = corpus.source.words.astype(np.int64)
    targets = corpus.target.words[corpus.of_source.others].astype(np.int64)
    bare = n_links == 0
    nulls = np.full(int(bare.sum()), len(corpus.target.vocabulary), np.int64)
    null_probs = np.zeros(len(sources))
    null_probs[bare] = table.source_given_target[table.rows_of(sources[bare], nulls)]
    linked_rows = table.rows_of(np.repeat(sources, n_links), targets)
    return LinkProbs(table.source_given_target[linked_rows], null_probs)


def write_lexical_tables(
    corpus: AlignedCorpus, table: LexicalTable, e2f: StrPath, f2e: StrPath
) -> None:
    """Write `lex.e2f` (source target p(source|target)) and `lex.f2e` (target source p(target|source)).

    The rows are Moses's; their order, which in Moses is that of a hash, ascends here.
    """
    sources = [*corpus.source.vocabulary, NULL]
    targets = [*corpus.target.vocabulary, NULL]
    inverse = np.lexsort((table.sources, table.targets))
    write_lines(
        e2f, _rows(sources, targets, table.sources, table.targets, table.source_given_target)
    )
    write_lines(
        f2e,
        _rows(
            targets,
            sources,
            table.targets[inverse],
            table.sources[inverse],
            table.target_given_source[inverse],
        ),
    )


def _rows(
    firsts: list[bytes],
    seconds: list[bytes],
    first_numbers: NDArray[np.int64],
    second_numbers: NDArray[np.int64],
    probs: NDArray[np.float64],
) -> Iterator[bytes]:
    columns = (first_numbers.tolist(), second_numbers.tolist(), probs.tolist())
    for first, second, prob in zip(*columns, strict=True):
        yield b"%b %b %.7f" % (firsts[first], seconds[second], prob)
