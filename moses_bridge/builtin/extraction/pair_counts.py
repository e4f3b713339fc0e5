"""Distinct phrase pairs of a corpus with their counts and the alignments that are printed and scored."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus, Links
from moses_bridge.builtin.extraction.occurrence_shards import OccurrenceShards
from moses_bridge.builtin.extraction.occurrences import (
    MAX_WORDS,
    NO_OCCURRENCES,
    Occurrences,
    extract,
)
from moses_bridge.builtin.extraction.phrase_numbers import number_phrases
from moses_bridge.builtin.extraction.spilled_rows import SpilledRows, spilled_rows
from moses_bridge.builtin.extraction.target_counts import TargetCounts
from moses_bridge.progress import Progress

N_ORIENTATIONS = 3


class PairCounts(NamedTuple):
    """Distinct phrase pairs in the order of the table, sources first.

    The target view of a pair is the occurrence whose alignment stands for it when Moses scores the
    target given the source, and the one that is printed; the source view serves the other direction.

    Attributes:
        source_starts, target_starts: (n_pairs,) positions of the target view in the running texts.
        source_view_starts: (n_pairs,) position of the source view in the source text.
        source_lens, target_lens: (n_pairs,) words.
        counts: (n_pairs,) occurrences of the pair.
        source_counts, target_counts: (n_pairs,) occurrences of each phrase in pairs of the corpus.
        previous, next: (n_pairs, 3) counts of the orientations to the phrase before and after.
    """

    source_starts: NDArray[np.int32]
    target_starts: NDArray[np.int32]
    source_view_starts: NDArray[np.int32]
    source_lens: NDArray[np.uint8]
    target_lens: NDArray[np.uint8]
    counts: NDArray[np.int32]
    source_counts: NDArray[np.int32]
    target_counts: NDArray[np.int32]
    previous: NDArray[np.int32]
    next: NDArray[np.int32]


NO_PAIRS = PairCounts(
    *np.empty((3, 0), np.int32),
    *np.empty((2, 0), np.uint8),
    *np.empty((3, 0), np.int32),
    *np.empty((2, 0, N_ORIENTATIONS), np.int32),
)


@contextlib.contextmanager
def collected_pairs(
    corpus: AlignedCorpus, max_words: int, occurrences_at_once: int, beside: Path
) -> Iterator[SpilledRows[PairCounts]]:
    """All phrase pairs of at most `max_words` words on each side, brought together and counted.

    They stand in a file without a name, 50 bytes a pair, which goes with the context; while they
    are collected, all occurrences do so too, 11 bytes each. In memory are some 250 bytes for each
    of `occurrences_at_once`, and 60 for each word of the target text.

    Args:
        corpus: where the phrase pairs are found.
        max_words: at most 7.
        occurrences_at_once: how many occurrences are sorted together.
        beside: a file in the directory of which there is room.

    Raises:
        OSError: the disk is full; it names `beside`.
    """
    with spilled_rows(beside, NO_PAIRS) as pairs:
        with spilled_rows(beside, NO_OCCURRENCES) as rows:
            shards = OccurrenceShards(corpus.source, rows, occurrences_at_once)
            _collect(corpus, shards, _spill(corpus, max_words, shards), pairs)
        yield pairs


def _spill(corpus: AlignedCorpus, max_words: int, shards: OccurrenceShards) -> NDArray[np.int32]:
    """Find all occurrences; the totals of their target phrases, as `TargetCounts` tells them."""
    totals = TargetCounts(corpus.target)
    for part in extract(corpus, max_words):
        shards.add(part)
        totals.add(part)
    return totals.finish()


def _collect(
    corpus: AlignedCorpus,
    shards: OccurrenceShards,
    target_counts: NDArray[np.int32],
    pairs: SpilledRows[PairCounts],
) -> None:
    with Progress("distinct phrase pairs", shards.n_occurrences, "occurrences") as progress:
        for occurrences in shards:
            pairs.append(_pairs_of_shard(corpus, occurrences, target_counts))
            progress.update(len(occurrences.source_starts))


def _pairs_of_shard(
    corpus: AlignedCorpus, occurrences: Occurrences, target_counts: NDArray[np.int32]
) -> PairCounts:
    """Bring equal phrase pairs together and count; all that a source phrase has is in the shard."""
    o = occurrences
    sources, targets = _number_both(corpus, o)
    keys = sources.astype(np.int64) * len(targets) + targets
    order = np.argsort(keys)
    keys = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
    ends = np.concatenate((begins[1:], [len(keys)]))
    by_target = (o.target_starts, o.target_lens, o.source_starts)
    by_source = (o.source_starts, o.source_lens, o.target_starts)
    target_views = _views(begins, ends, order, by_target, corpus.of_target)
    source_views = _views(begins, ends, order, by_source, corpus.of_source)
    target_starts, target_lens = o.target_starts[target_views], o.target_lens[target_views]
    return PairCounts(
        o.source_starts[target_views],
        target_starts,
        o.source_starts[source_views],
        o.source_lens[target_views],
        target_lens,
        (ends - begins).astype(np.int32),
        np.bincount(sources)[sources[target_views]].astype(np.int32),
        target_counts[target_starts, target_lens - 1],
        *_count_orientations(begins, ends, order, o.orientations),
    )


def _number_both(
    corpus: AlignedCorpus, occurrences: Occurrences
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    with ThreadPoolExecutor(2) as pool:
        sources = pool.submit(
            number_phrases, corpus.source, occurrences.source_starts, occurrences.source_lens
        )
        targets = pool.submit(
            number_phrases, corpus.target, occurrences.target_starts, occurrences.target_lens
        )
        return sources.result(), targets.result()


@njit(cache=True, nogil=True)
def _count_orientations(begins: Any, ends: Any, order: Any, orientations: Any) -> Any:
    previous = np.zeros((len(begins), N_ORIENTATIONS), np.int32)
    following = np.zeros((len(begins), N_ORIENTATIONS), np.int32)
    for pair in range(len(begins)):
        for i in range(begins[pair], ends[pair]):
            both = orientations[order[i]]
            previous[pair, both // N_ORIENTATIONS] += 1
            following[pair, both % N_ORIENTATIONS] += 1
    return previous, following


def _views(
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    order: NDArray[np.int64],
    side: tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]],
    links: Links,
) -> NDArray[np.int64]:
    """The occurrence with the most frequent alignment of each pair.

    Among equally frequent ones Moses takes the greatest (`ExtractionPhrasePair.cpp`,
    `FindBestAlignmentTargetToSource`), where an alignment is the sequence, word by word of one
    side, of the sets of linked words of the other, both compared as C++ compares containers.
    """
    starts, lens, other_starts = side
    ranks = _set_ranks()
    return np.asarray(
        _most_frequent(
            begins, ends, order, starts, lens, other_starts, links.starts, links.others, ranks
        )
    )


def _set_ranks() -> NDArray[np.int64]:
    """Rank of each set of word positions, given as bits, among all sets compared as sequences."""
    members = [
        [bit for bit in range(MAX_WORDS) if number >> bit & 1] for number in range(1 << MAX_WORDS)
    ]
    ranks = np.empty(len(members), np.int64)
    ranks[sorted(range(len(members)), key=members.__getitem__)] = np.arange(len(members))
    return ranks


@njit(cache=True, nogil=True)
def _most_frequent(
    begins: Any,
    ends: Any,
    order: Any,
    starts: Any,
    lens: Any,
    other_starts: Any,
    link_starts: Any,
    others: Any,
    ranks: Any,
) -> Any:
    views = np.empty(len(begins), np.int64)
    longest = 1
    for pair in range(len(begins)):
        longest = max(longest, ends[pair] - begins[pair])
    seen = np.empty(longest, np.int64)
    seen_counts = np.empty(longest, np.int64)
    seen_first = np.empty(longest, np.int64)
    for pair in range(len(begins)):
        n_seen = 0
        if ends[pair] - begins[pair] == 1:
            views[pair] = order[begins[pair]]
            continue
        for i in range(begins[pair], ends[pair]):
            row = order[i]
            alignment = _alignment_rank(
                starts[row], lens[row], other_starts[row], link_starts, others, ranks
            )
            k = 0
            while k < n_seen and seen[k] != alignment:
                k += 1
            if k == n_seen:
                seen[k], seen_counts[k], seen_first[k] = alignment, 0, row
                n_seen += 1
            seen_counts[k] += 1
        best = 0
        for k in range(1, n_seen):
            if seen_counts[k] > seen_counts[best] or (
                seen_counts[k] == seen_counts[best] and seen[k] > seen[best]
            ):
                best = k
        views[pair] = seen_first[best]
    return views


@njit(cache=True, nogil=True)
def _alignment_rank(
    start: int, length: int, other_start: int, link_starts: Any, others: Any, ranks: Any
) -> int:
    rank = 0
    for word in range(start, start + length):
        members = 0
        for k in range(link_starts[word], link_starts[word + 1]):
            members |= 1 << (others[k] - other_start)
        rank = rank * 128 + ranks[members]
    return rank
