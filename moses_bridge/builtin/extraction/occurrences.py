"""Phrase pairs consistent with the word links of a corpus.

The conditions are those of Moses's `extract` (Koehn, Och and Marcu 2003, section 4.5 of Koehn's
"Statistical Machine Translation", 2010): no link leaves the pair, at least one lies inside, and
unlinked source words at the edges are taken in or left out, all ways counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import SpilledRows
from moses_bridge.base.compiled.empty_arrays import empty_arrays
from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.progress import Progress
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus, Links, Text
from moses_bridge.builtin.sorted_runs import RegularSamples

MAX_WORDS = 12  # of a phrase; for letters, more than 7 are worth it
SENTENCES_AT_ONCE = 10_000  # some 20 MB of phrase pairs
FIRST_ROOM = 1 << 16
MONOTONE, SWAP, OTHER = 0, 1, 2
BITS_OF_A_KEY = 63  # of an int64 that stays positive, so that keys sort as they should


class Occurrences(NamedTuple):
    """Extracted phrase pairs, one entry for each place where one was found.

    Attributes:
        source_starts, target_starts: (n,) positions of the first words in the running texts.
        source_lens, target_lens: (n,) words.
        orientations: (n,) 3 * (orientation to the phrase before) + (orientation to the one after),
            each MONOTONE, SWAP or OTHER as seen by the links of the words at the corners.
    """

    source_starts: NDArray[np.int32]
    target_starts: NDArray[np.int32]
    source_lens: NDArray[np.uint8]
    target_lens: NDArray[np.uint8]
    orientations: NDArray[np.uint8]


NO_OCCURRENCES = empty_arrays(Occurrences, 0)


def extract(corpus: AlignedCorpus, max_words: int) -> Iterator[Occurrences]:
    """Yield all phrase pairs of at most `max_words` words on each side, 10,000 sentences at a time."""
    n_sentences = len(corpus.source.starts) - 1
    with Progress("phrase pairs", n_sentences, "sentences") as progress:
        for first in range(0, n_sentences, SENTENCES_AT_ONCE):
            end = min(first + SENTENCES_AT_ONCE, n_sentences)
            found = _find_pairs(
                corpus.source.starts[first : end + 1],
                corpus.target.starts[first : end + 1],
                corpus.of_source.starts,
                corpus.of_target,
                max_words,
            )
            kinds = [column.dtype for column in NO_OCCURRENCES]
            yield Occurrences(*(found[:, i].astype(kind) for i, kind in enumerate(kinds)))
            progress.update(end - first)


class _Bounds(NamedTuple):
    """Where a sentence pair begins and ends in the running texts."""

    source_begin: int
    source_end: int
    target_begin: int
    target_end: int


@njit(nogil=True)
def _find_pairs(
    source_starts: Any, target_starts: Any, links_before: Any, links: Links, max_words: int
) -> Any:
    """Rows (source start, target start, lengths, orientations); links_before[i] are those of words before i."""
    found, n_found = np.empty((FIRST_ROOM, 5), np.int32), 0
    for sentence in range(len(source_starts) - 1):
        bounds = _Bounds(
            source_starts[sentence], source_starts[sentence + 1],
            target_starts[sentence], target_starts[sentence + 1],
        )  # fmt: skip
        for target in range(bounds.target_begin, bounds.target_end):
            lowest, highest, n_links = bounds.source_end, bounds.source_begin - 1, 0
            for last_target in range(target, min(target + max_words, bounds.target_end)):
                for k in range(links.starts[last_target], links.starts[last_target + 1]):
                    lowest, highest = min(lowest, links.others[k]), max(highest, links.others[k])
                    n_links += 1
                if n_links == 0:
                    continue
                if highest - lowest >= max_words:
                    break
                if links_before[highest + 1] - links_before[lowest] != n_links:
                    continue
                # one more phrase pair for each way to take in unlinked words at both edges
                if n_found + max_words * max_words > len(found):
                    found = _larger(found)
                n_found = _add_pairs(
                    found, n_found, lowest, highest, target, last_target, bounds, links_before,
                    links, max_words,
                )  # fmt: skip
    return found[:n_found].copy()


@inner_maker
def _larger(found: Any) -> Any:
    larger = np.empty((2 * len(found), 5), np.int32)
    for row in range(len(found)):
        for i in range(5):
            larger[row, i] = found[row, i]
    return larger


@inner
def _add_pairs(
    found: Any, n_found: int, lowest: int, highest: int, target: int, last_target: int,
    bounds: _Bounds, links_before: Any, links: Links, max_words: int,
) -> int:  # fmt: skip
    """Enter the source phrase lowest..highest, and those with unlinked words before and after it."""
    source = lowest
    while (
        source >= bounds.source_begin
        and source > highest - max_words
        and (source == lowest or links_before[source + 1] == links_before[source])
    ):
        last = highest
        while (
            last < bounds.source_end
            and last < source + max_words
            and (last == highest or links_before[last + 1] == links_before[last])
        ):
            found[n_found, 0], found[n_found, 1] = source, target
            found[n_found, 2] = last - source + 1
            found[n_found, 3] = last_target - target + 1
            found[n_found, 4] = 3 * _orientation(
                _linked(source - 1, target - 1, bounds, links),
                _linked(last + 1, target - 1, bounds, links),
            ) + _orientation(
                _linked(last + 1, last_target + 1, bounds, links),
                _linked(source - 1, last_target + 1, bounds, links),
            )
            n_found += 1
            last += 1
        source -= 1
    return n_found


@inner
def _orientation(follows: bool, precedes: bool) -> int:
    if follows == precedes:
        return OTHER
    return MONOTONE if follows else SWAP


@inner
def _linked(source: int, target: int, bounds: _Bounds, links: Links) -> bool:
    """Whether two words are linked; so are the places before both first and after both last words."""
    if source < bounds.source_begin or target < bounds.target_begin:
        return bool(source < bounds.source_begin and target < bounds.target_begin)
    if source >= bounds.source_end or target >= bounds.target_end:
        return bool(source >= bounds.source_end and target >= bounds.target_end)
    for k in range(links.starts[target], links.starts[target + 1]):  # noqa: SIM110 - compiled
        if links.others[k] == source:
            return True
    return False


class OccurrenceShards:
    """Takes occurrences in any order and returns them in shards of about `occurrences_at_once` (`sorted_runs`).

    `rows` is an empty file for the runs. A shard is larger where the phrases sharing their first words
    (three in a vocabulary of up to two millions) occur more often, and by at most a 4096th for each run.
    """

    def __init__(
        self, source: Text, rows: SpilledRows[Occurrences], occurrences_at_once: int
    ) -> None:
        self._source = source
        self._rows = rows
        self._samples = RegularSamples(occurrences_at_once)

    def add(self, occurrences: Occurrences) -> None:
        """Sort a run and append it."""
        keys = self._keys(occurrences)
        order = np.argsort(keys)
        columns: Iterator[Any] = (column[order] for column in occurrences)
        self._rows.append(Occurrences(*columns))
        self._samples.add(keys[order])

    @property
    def n_occurrences(self) -> int:
        """Number of occurrences so far."""
        return self._rows.n_rows

    def __iter__(self) -> Iterator[Occurrences]:
        """Yield shards; no source phrase of one precedes any of an earlier one in the table."""
        for slices in self._samples.shards(lambda *rows: self._keys(self._rows.read(*rows))):
            parts = [self._rows.read(first, end) for first, end in slices]
            yield Occurrences(*map(np.concatenate, zip(*parts, strict=True)))

    def _keys(self, occurrences: Occurrences) -> NDArray[np.int64]:
        return leading_words(self._source, occurrences.source_starts, occurrences.source_lens)


def number_phrases(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8]
) -> NDArray[np.int32]:
    """(n,) ranks, from 0 on, of the phrases beginning at `starts` (n,) with `lens` (n,) words.

    Equal phrases have equal ranks, in the order of `LC_ALL=C sort` on lines with ` ||| ` after the phrase.
    """
    step = _words_of_a_key(text)
    firsts = range(0, int(lens.max(initial=0)) + 1, step)
    keys = [leading_words(text, starts, lens, first) for first in reversed(firsts)]
    order = np.lexsort(keys)
    differs = np.zeros(len(order), np.bool_)
    for key in keys:
        in_order = key[order]
        differs[1:] |= in_order[1:] != in_order[:-1]
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.cumsum(differs)
    return ranks


def leading_words(
    text: Text, starts: NDArray[np.int32], lens: NDArray[np.uint8], first: int = 0
) -> NDArray[np.int64]:
    """(n,) numbers ascending in the same order, equal for equal words from number `first` on.

    They hold as many words as fit in 63 bits, including the bar after a shorter phrase.
    """
    bits, n_words = len(text.vocabulary).bit_length(), _words_of_a_key(text)
    return np.asarray(_pack(text.words, text.bar, starts, lens, first, first + n_words, bits))


def _words_of_a_key(text: Text) -> int:
    return BITS_OF_A_KEY // len(text.vocabulary).bit_length()


@njit(nogil=True)
def _pack(words: Any, bar: int, starts: Any, lens: Any, first: int, end: int, bits: int) -> Any:
    """Pack words into keys, with the bar right after a phrase and 0 after that."""
    keys = np.zeros(len(starts), np.int64)
    for row in range(len(starts)):
        for i in range(first, end):
            word = 0
            if i < lens[row]:
                word = words[starts[row] + i]
            elif i == lens[row]:
                word = bar
            keys[row] = keys[row] << bits | word
    return keys
