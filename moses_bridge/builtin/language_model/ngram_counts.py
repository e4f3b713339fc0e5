"""All n-grams of a text, counted order by order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, ArrayFiles, Numbers, numbers_below, parts
from moses_bridge.base.progress import Progress
from moses_bridge.builtin.language_model.tokens import BOS, Tokens
from moses_bridge.builtin.sorted_runs import SortedRuns, counted

NONE = -1  # where no n-gram of the order ends


@dataclass(frozen=True)
class NGramCounts:
    """The distinct n-grams of one order, sorted by last word, then the word before it, and so on.

    Attributes:
        first_words: (n,) number of the first word.
        suffixes: (n,) number of the n-gram without its first word, one order lower; ascending.
        contexts: (n,) number of the n-gram without its last word, one order lower.
        raw: (n,) occurrences in the text.
    """

    first_words: ArrayFile[np.int32]
    suffixes: Numbers
    contexts: Numbers
    raw: Numbers

    def __len__(self) -> int:
        return len(self.raw)


def count_ngrams(tokens: Tokens, order: int, files: ArrayFiles, at_once: int) -> list[NGramCounts]:
    """Count the n-grams of orders 1 to `order`; unigram i is word i, <s> counts 0.

    Each order is counted from the one below: an n-gram is the number of its suffix and a first word. So
    only pairs of numbers are sorted, at most `at_once` of them at a time, some 90 bytes each.
    """
    orders = [_count_words(tokens, files, at_once)]
    with (
        Progress("count n-grams", len(tokens.ids) * (order - 1), "n-grams") as progress,
        ArrayFiles(files.directory) as scratch,
    ):
        limit, ends = len(tokens.ids), cast(Numbers, tokens.ids)
        spare = numbers_below(limit, scratch), numbers_below(limit, scratch)
        for length in range(2, order + 1):
            text = _Ends(tokens.ids, ends, len(tokens.words), length)
            ends = spare[length % 2]
            orders.append(_count_order(text, ends, length < order, files, at_once, progress))
    return orders


def _count_words(tokens: Tokens, files: ArrayFiles, at_once: int) -> NGramCounts:
    n_words = len(tokens.words)
    raw = np.zeros(n_words, np.int64)
    for first, end in parts(len(tokens.ids), at_once):
        raw += np.bincount(tokens.ids.read(first, end), minlength=n_words)
    raw[BOS] = 0
    counts = _no_counts(len(tokens.ids), files)
    counts.first_words.append(np.arange(n_words))
    counts.suffixes.lengthen(n_words)
    counts.contexts.lengthen(n_words)
    counts.raw.append(raw)
    return counts


def _no_counts(limit: int, files: ArrayFiles) -> NGramCounts:
    return NGramCounts(files.new(np.int32), *(numbers_below(limit, files) for _ in range(3)))


@dataclass(frozen=True)
class _Ends:
    """Ends of the n-grams of one order (`length` words) in the text."""

    ids: ArrayFile[np.int32]
    lower: Numbers  # the n-gram one order lower ending at each place, NONE if there is none
    n_words: int
    length: int

    def read(
        self, first: int, end: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """N-grams ending from `first` to before `end`: places from `first` on, keys in order, and contexts."""
        begin = max(first - (self.length - 1), 0)
        ids = self.ids.read(begin, end)
        lower = self.lower.read(begin, end)
        places = np.arange(max(first, 1) - begin, end - begin)
        places = places[(ids[places] != BOS) & (lower[places - 1] != NONE)]
        keys = lower[places].astype(np.int64) * self.n_words + ids[places - (self.length - 1)]
        return places - (first - begin), keys, lower[places - 1]


def _count_order(
    text: _Ends,
    numbers: Numbers,
    numbered: bool,
    files: ArrayFiles,
    at_once: int,
    progress: Progress,
) -> NGramCounts:
    """Count n-grams; if `numbered`, write the number of the one ending at each place to `numbers`."""
    limit = len(text.ids)
    counts = _no_counts(limit, files)
    with ArrayFiles(files.directory) as scratch:
        runs, places_in_run = SortedRuns(scratch, limit, at_once), scratch.new(np.int32)
        for first, end in parts(len(text.ids), at_once):
            places, keys, contexts = text.read(first, end)
            run, of_keys = counted(keys, contexts, None)
            runs.add(run)
            if numbered:
                of_places = np.full(end - first, NONE, np.int32)
                of_places[places] = of_keys
                places_in_run.append(of_places)
            progress.update(end - first)
        for part in runs.merged():
            suffixes, first_words = np.divmod(part.keys, text.n_words)
            counts.suffixes.append(suffixes)
            counts.first_words.append(first_words)
            counts.contexts.append(part.values)
            counts.raw.append(part.counts)
        for run_number, (first, end) in enumerate(parts(len(places_in_run), at_once)):
            # NONE is the last place, after the n-grams of the run
            of_run = np.append(runs.numbers_of_run(run_number), NONE)
            numbers.write(first, of_run[places_in_run.read(first, end)])
    return counts


def adjusted_counts(orders: list[NGramCounts], files: ArrayFiles, at_once: int) -> list[Numbers]:
    """Counts for Kneser-Ney smoothing (Chen and Goodman 1998, section 3; Heafield 2013).

    The highest order and n-grams beginning with <s> keep their occurrences, all others count the distinct
    words before them.
    """
    adjusted = [_words_before(lower, higher, files, at_once) for lower, higher in pairwise(orders)]
    return [*adjusted, orders[-1].raw]


def _words_before(
    lower: NGramCounts, higher: NGramCounts, files: ArrayFiles, at_once: int
) -> Numbers:
    counts = numbers_below(len(higher), files)
    counts.lengthen(len(lower))
    for first, end in parts(len(higher), at_once):
        suffixes = higher.suffixes.read(first, end)
        begins = np.flatnonzero(np.diff(suffixes, prepend=NONE))
        counts.add(suffixes[begins], np.diff(begins, append=len(suffixes)))
    for first, end in parts(len(lower), at_once):
        is_start = lower.first_words.read(first, end) == BOS
        both = lower.raw.read(first, end), counts.read(first, end)
        counts.write(first, np.where(is_start, *both))
    return counts
