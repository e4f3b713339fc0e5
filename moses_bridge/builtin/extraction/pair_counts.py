"""Distinct phrase pairs of a corpus with their counts and the alignments to print and score."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, ArrayFiles, SpilledRows, parts, spilled_rows
from moses_bridge.base.compiled.empty_arrays import empty_arrays
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.progress import Progress
from moses_bridge.builtin.extraction.aligned_corpus import WORDS_AT_ONCE, AlignedCorpus, Links, Text
from moses_bridge.builtin.extraction.occurrences import (
    NO_OCCURRENCES,
    Occurrences,
    OccurrenceShards,
    extract,
    number_phrases,
)
from moses_bridge.builtin.sorted_runs import SortedRuns, counted

N_ORIENTATIONS = 3
SMOOTHING = 0.5  # the default of train-model.perl for lexical-reordering-score
BITS_OF_A_NUMBER = 63  # of an int64 that stays positive
OCCURRENCE, COUNT, ALIGNMENT = (
    0,
    1,
    2,
)  # columns of alignments seen; the last one is the first of some


class PairCounts(NamedTuple):
    """Distinct phrase pairs in the order of the table, sources first.

    The target view of a pair is the occurrence whose alignment Moses uses to score the target
    given the source, and to print. The source view is used for the other direction.

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


NO_ORIENTATIONS = np.empty((0, N_ORIENTATIONS), np.int32)
NO_PAIRS = empty_arrays(PairCounts, 0, previous=NO_ORIENTATIONS, next=NO_ORIENTATIONS)


@contextlib.contextmanager
def collected_pairs(
    corpus: AlignedCorpus, max_words: int, occurrences_at_once: int, beside: Path
) -> Iterator[SpilledRows[PairCounts]]:
    """All phrase pairs of at most `max_words` words on each side, joined and counted.

    They are in an anonymous file in the directory of `beside`, 50 bytes a pair, freed at the end of the
    context. While they are collected, all occurrences are in such a file too, 11 bytes each, and totals of
    target phrases, 4 * `max_words` bytes a word. Some 250 bytes are in memory for each of
    `occurrences_at_once`, which are sorted together.

    Raises:
        OSError: the disk is full; names `beside`.
    """
    with spilled_rows(beside, NO_PAIRS) as pairs:
        with spilled_rows(beside, NO_OCCURRENCES) as rows:
            shards = OccurrenceShards(corpus.source, rows, occurrences_at_once)
            totals = _spill(corpus, max_words, shards, beside.parent)
            _collect(corpus, shards, totals, pairs)
        yield pairs


def _spill(
    corpus: AlignedCorpus, max_words: int, shards: OccurrenceShards, directory: Path
) -> NDArray[np.int32]:
    """Find all occurrences; return the totals of their target phrases, as given by `TargetCounts`."""
    with ArrayFiles(directory) as files:
        totals = TargetCounts(corpus.target, files, max_words)
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
    """Join equal phrase pairs and count them; a shard has all pairs of its source phrases."""
    o = occurrences
    texts, starts = (corpus.source, corpus.target), (o.source_starts, o.target_starts)
    with ThreadPoolExecutor(2) as pool:
        sources, targets = pool.map(number_phrases, texts, starts, (o.source_lens, o.target_lens))
    keys = sources.astype(np.int64) * len(targets) + targets
    order = np.argsort(keys)
    keys = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
    ends = np.concatenate((begins[1:], [len(keys)]))
    groups = _Groups(begins, ends, order)
    by_target = _Side(o.target_starts, o.target_lens, o.source_starts)
    by_source = _Side(o.source_starts, o.source_lens, o.target_starts)
    longest = int(np.concatenate((o.source_lens, o.target_lens)).max(initial=1))
    ranks = _set_ranks(longest)
    target_views = np.asarray(_most_frequent(groups, by_target, corpus.of_target, ranks, longest))
    source_views = np.asarray(_most_frequent(groups, by_source, corpus.of_source, ranks, longest))
    target_starts, target_lens = o.target_starts[target_views], o.target_lens[target_views]
    previous, following = _count_orientations(groups, o.orientations)
    return PairCounts(
        source_starts=o.source_starts[target_views],
        target_starts=target_starts,
        source_view_starts=o.source_starts[source_views],
        source_lens=o.source_lens[target_views],
        target_lens=target_lens,
        counts=(ends - begins).astype(np.int32),
        source_counts=np.bincount(sources)[sources[target_views]].astype(np.int32),
        target_counts=target_counts[target_starts, target_lens - 1],
        previous=previous,
        next=following,
    )


class _Groups(NamedTuple):
    """Occurrences by phrase pair: those of pair i are order[begins[i]:ends[i]]."""

    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    order: NDArray[np.int64]


class _Side(NamedTuple):
    """Places of each occurrence's phrases of one side, and where the other side begins."""

    starts: NDArray[np.int32]
    lens: NDArray[np.uint8]
    other_starts: NDArray[np.int32]


@njit(nogil=True)
def _count_orientations(groups: _Groups, orientations: Any) -> Any:
    n_pairs = len(groups.begins)
    previous = np.zeros((n_pairs, N_ORIENTATIONS), np.int32)
    following = np.zeros((n_pairs, N_ORIENTATIONS), np.int32)
    for pair in range(n_pairs):
        for i in range(groups.begins[pair], groups.ends[pair]):
            both = orientations[groups.order[i]]
            previous[pair, both // N_ORIENTATIONS] += 1
            following[pair, both % N_ORIENTATIONS] += 1
    return previous, following


def _set_ranks(longest: int) -> NDArray[np.int64]:
    """Rank of each set of word positions below `longest`, given as bits, among all sets as sequences."""
    members = [
        [bit for bit in range(longest) if number >> bit & 1] for number in range(1 << longest)
    ]
    ranks = np.empty(len(members), np.int64)
    ranks[sorted(range(len(members)), key=members.__getitem__)] = np.arange(len(members))
    return ranks


@njit(nogil=True)
def _most_frequent(groups: _Groups, side: _Side, links: Links, ranks: Any, longest: int) -> Any:
    """The occurrence with the most frequent alignment of each pair.

    Of equally frequent ones Moses takes the greatest (`ExtractionPhrasePair.cpp`,
    `FindBestAlignmentTargetToSource`). An alignment is the sequence, word by word of one side, of the sets of
    linked words of the other; both are compared like C++ containers: as numbers with a digit for each word,
    the rank of its set. Seven words have sets of 7 bits, one number; twelve words need three.
    """
    n_digits = BITS_OF_A_NUMBER // longest
    n_pairs = len(groups.begins)
    views = np.empty(n_pairs, np.int64)
    most = 1
    for pair in range(n_pairs):
        most = max(most, groups.ends[pair] - groups.begins[pair])
    seen = np.empty((most, ALIGNMENT + (longest - 1) // n_digits + 1), np.int64)
    for pair in range(n_pairs):
        begin, end = groups.begins[pair], groups.ends[pair]
        if end - begin == 1:
            views[pair] = groups.order[begin]
            continue
        n_seen = 0
        for i in range(begin, end):
            _enter_alignment(seen, n_seen, groups.order[i], side, links, ranks, n_digits)
            n_seen = _count_alignment(seen, n_seen)
        views[pair] = _best_occurrence(seen, n_seen)
    return views


@inner
def _enter_alignment(
    seen: Any, place: int, row: int, side: _Side, links: Links, ranks: Any, n_digits: int
) -> None:
    """Enter the alignment of an occurrence behind those seen, with `n_digits` words in a number."""
    seen[place, OCCURRENCE], seen[place, COUNT] = row, 1
    for column in range(ALIGNMENT, seen.shape[1]):
        seen[place, column] = 0
    for i in range(side.lens[row]):
        word, members = side.starts[row] + i, 0
        for k in range(links.starts[word], links.starts[word + 1]):
            members |= 1 << (links.others[k] - side.other_starts[row])
        column = ALIGNMENT + i // n_digits
        seen[place, column] = seen[place, column] * len(ranks) + ranks[members]


@inner
def _count_alignment(seen: Any, n_seen: int) -> int:
    """Count the alignment entered last among those seen; return their new number."""
    for k in range(n_seen):
        if _order(seen, k, n_seen) == 0:
            seen[k, COUNT] += 1
            return n_seen
    return n_seen + 1


@inner
def _order(seen: Any, one: int, other: int) -> int:
    """1 if the alignment at one place is greater than that at another one, -1 if less, 0 if equal."""
    for column in range(ALIGNMENT, seen.shape[1]):
        if seen[one, column] != seen[other, column]:
            return 1 if seen[one, column] > seen[other, column] else -1
    return 0


@inner
def _best_occurrence(seen: Any, n_seen: int) -> int:
    """The first occurrence with the most frequent alignment, of equal ones the greatest."""
    best = 0
    for k in range(1, n_seen):
        if seen[k, COUNT] > seen[best, COUNT] or (
            seen[k, COUNT] == seen[best, COUNT] and _order(seen, k, best) > 0
        ):
            best = k
    return int(seen[best, OCCURRENCE])


def reordering_probs(pairs: PairCounts) -> NDArray[np.float64]:
    """(n_pairs, 6) probabilities of monotone, swap, other: towards the phrase before, then after.

    Relative frequencies with 0.5 added to each count, as `lexical-reordering-score` of Moses does
    (Koehn et al., "Edinburgh System Description", IWSLT 2005).
    """
    return np.concatenate((_smoothed(pairs.previous), _smoothed(pairs.next)), axis=1)


def _smoothed(counts: NDArray[np.int32]) -> NDArray[np.float64]:
    raised = counts + SMOOTHING
    probs: NDArray[np.float64] = raised / raised.sum(axis=1, keepdims=True)
    return probs


class TargetCounts:
    """Counts occurrences part by part, then gives the total of any phrase by its place.

    It needs `max_words` bytes of disk a target word while it counts (with 12 words, one place is in at most
    78 phrase pairs), 4 times as many afterwards, and some 90 bytes of memory for each of `WORDS_AT_ONCE`.
    """

    def __init__(self, target: Text, files: ArrayFiles, max_words: int) -> None:
        self._target = target
        self._files = files
        self._max_words = max_words
        self._here = files.new(np.uint8)
        self._here.lengthen(len(target.words) * max_words)

    def add(self, occurrences: Occurrences) -> None:
        """Count occurrences of sentences not yet counted."""
        if len(occurrences.target_starts) == 0:
            return
        first = int(occurrences.target_starts.min())
        places = (occurrences.target_starts - first) * self._max_words + occurrences.target_lens - 1
        counts = np.bincount(places)
        begin = first * self._max_words
        self._here.write(begin, self._here.read(begin, begin + len(counts)) + counts)

    def finish(self) -> NDArray[np.int32]:
        """(n_words, max_words) occurrences in the corpus of the phrases of 1, 2 ... words from each word on."""
        n_words, max_words = len(self._target.words), self._max_words
        totals = self._files.new(np.int32)
        with ArrayFiles(self._files.directory) as scratch:
            numbers = scratch.new(np.int32)
            numbers.lengthen(n_words)
            for length in range(1, max_words + 1):
                self._count(length, numbers, totals)
        return totals.mapped().reshape(max_words, n_words).T

    def _count(
        self, length: int, numbers: ArrayFile[np.int32], totals: ArrayFile[np.int32]
    ) -> None:
        """Append the totals of phrases of `length` words; `numbers` are of those one word shorter."""
        n_words = len(self._target.words)
        with ArrayFiles(self._files.directory) as scratch:
            runs, places = SortedRuns(scratch, n_words, WORDS_AT_ONCE), scratch.new(np.int32)
            for first, end in parts(n_words, WORDS_AT_ONCE):
                keys = self._keys(numbers.read(first, end), first, length)
                here = self._here.read(first * self._max_words, end * self._max_words)
                run, of_keys = counted(
                    keys,
                    np.zeros(len(keys), np.int8),
                    here[length - 1 :: self._max_words].astype(np.int64),
                )
                runs.add(run)
                places.append(of_keys)
            of_phrases = scratch.new(np.int32)
            for part in runs.merged():
                of_phrases.append(part.counts)
            for number, (first, end) in enumerate(parts(n_words, WORDS_AT_ONCE)):
                of_run, of_places = runs.numbers_of_run(number), places.read(first, end)
                numbers.write(first, of_run[of_places])
                totals.append(of_phrases.take(of_run)[of_places])

    def _keys(self, numbers: NDArray[np.int32], first: int, length: int) -> NDArray[np.int64]:
        """(n,) numbers of `length` words from each place on, given those of one word less."""
        n_kinds = len(self._target.vocabulary) + 1  # the last one follows the text
        keys = numbers.astype(np.int64) * n_kinds + n_kinds - 1
        words = self._target.words[first + length - 1 : first + length - 1 + len(keys)]
        keys[: len(words)] += words - (n_kinds - 1)
        return keys
