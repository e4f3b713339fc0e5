"""Distinct phrase pairs of a corpus with their counts and the alignments that are printed and scored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.aligned_corpus import AlignedCorpus, Links
from moses_bridge.builtin.extraction import Occurrences
from moses_bridge.builtin.phrase_numbers import PhraseNumbers, number_phrases

MAX_WORDS = 7
N_ORIENTATIONS = 3


@dataclass(frozen=True)
class PhrasePairs:
    """Distinct phrase pairs in the order of the table, sources first.

    Attributes:
        sources, targets: (n_pairs,) numbers of the phrases in `source_phrases`, `target_phrases`.
        counts: (n_pairs,) occurrences of the pair.
        source_counts, target_counts: occurrences of each phrase in pairs.
        target_views, source_views: (n_pairs,) occurrence whose alignment stands for the pair when
            Moses scores the target given the source, and the source given the target.
        previous, next: (n_pairs, 3) counts of the orientations to the phrase before and after.
    """

    source_phrases: PhraseNumbers
    target_phrases: PhraseNumbers
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    counts: NDArray[np.int32]
    source_counts: NDArray[np.int64]
    target_counts: NDArray[np.int64]
    target_views: NDArray[np.int64]
    source_views: NDArray[np.int64]
    previous: NDArray[np.int32]
    next: NDArray[np.int32]


def collect_pairs(corpus: AlignedCorpus, occurrences: Occurrences) -> PhrasePairs:
    """Bring equal phrase pairs together and count."""
    sources, targets = _number_both(corpus, occurrences)
    keys = sources.of_occurrences.astype(np.int64) * len(targets.starts) + targets.of_occurrences
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
    ends = np.concatenate((begins[1:], [len(keys)]))
    previous, following = _count_orientations(begins, ends, order, occurrences.orientations)
    first = order[begins]
    o = occurrences
    by_target = (o.target_starts, o.target_lens, o.source_starts)
    by_source = (o.source_starts, o.source_lens, o.target_starts)
    return PhrasePairs(
        sources,
        targets,
        sources.of_occurrences[first],
        targets.of_occurrences[first],
        (ends - begins).astype(np.int32),
        np.bincount(sources.of_occurrences, minlength=len(sources.starts)),
        np.bincount(targets.of_occurrences, minlength=len(targets.starts)),
        _views(begins, ends, order, by_target, corpus.of_target),
        _views(begins, ends, order, by_source, corpus.of_source),
        previous,
        following,
    )


def _number_both(
    corpus: AlignedCorpus, occurrences: Occurrences
) -> tuple[PhraseNumbers, PhraseNumbers]:
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
