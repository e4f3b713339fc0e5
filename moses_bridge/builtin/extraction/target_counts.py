"""Occurrences of each target phrase in phrase pairs of the whole corpus."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, ArrayFiles, parts
from moses_bridge.builtin.extraction.aligned_corpus import WORDS_AT_ONCE, Text
from moses_bridge.builtin.extraction.occurrences import Occurrences
from moses_bridge.builtin.sorted_runs import SortedRuns, counted


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
