"""A text as word numbers, and all its n-grams, counted order by order."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base import textio
from moses_bridge.base.array_file import ArrayFile, ArrayFiles, Numbers, numbers_below, parts
from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import Progress, track_lines
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.builtin.sorted_runs import SortedRuns, counted

NONE = -1  # where no n-gram of the order ends
SPECIAL_WORDS = (b"<unk>", b"<s>", b"</s>")
UNK, BOS, EOS = range(3)
# Separators of words in lmplz (lm/builder/corpus_count.cc), but for the blank and the line feed.
SEPARATORS = bytes.maketrans(b"\0\t\r", b"   ")
TOKENS_AT_ONCE = 1 << 16  # are written together


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


@dataclass(frozen=True)
class Tokens:
    """A text as one row of word numbers (n_tokens,) in a file, each sentence as <s> w1 ... wn </s>.

    `words` are numbered as they first appear, after <unk>, <s> and </s>.
    """

    words: list[bytes]
    ids: ArrayFile[np.int32]


def read_tokens(path: textio.StrPath, files: ArrayFiles) -> Tokens:
    """Number the words of a text; lines end at a line feed, words at blanks, tabs, NUL and CR.

    The distinct words are in memory.

    Raises:
        InputError: the text has no line, or one of <unk>, <s>, </s> as a word.
    """
    numbers: defaultdict[bytes, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word gets the next number
    numbers.update((word, number) for number, word in enumerate(SPECIAL_WORDS))
    ids = files.new(np.int32)
    waiting: list[int] = []
    for line_number, line in enumerate(
        track_lines(read_text_lines(path), "read words", path, "lines"), start=1
    ):
        words = words_of_line(line)
        sentence = [numbers[word] for word in words]
        if sentence and min(sentence) <= EOS:
            word = SPECIAL_WORDS[min(sentence)].decode()
            raise InputError(
                path, line_number, f"the word {word}", "plain words", "Escape or remove it"
            )
        waiting += (BOS, *sentence, EOS)
        if len(waiting) >= TOKENS_AT_ONCE:
            ids.append(np.array(waiting, np.int32))
            waiting.clear()
    ids.append(np.array(waiting, np.int32))
    if not len(ids):
        raise InputError(path, None, "no lines", "a text with at least one line")
    return Tokens(list(numbers), ids)


def words_of_line(line: bytes) -> list[bytes]:
    """The words of a line, as `lmplz` separates them."""
    return [word for word in line.translate(SEPARATORS).split(b" ") if word]


def tokens_within(
    sentences: Iterable[Sequence[bytes]], vocabulary: Sequence[bytes], files: ArrayFiles
) -> Tokens:
    """Number the words of sentences by a given vocabulary; all others are <unk>.

    The vocabulary has each word once and none of <unk>, <s>, </s>; the same one gives the same numbers.
    """
    words = [*SPECIAL_WORDS, *vocabulary]
    numbers = {word: number for number, word in enumerate(words) if number > EOS}
    ids = array("i")
    for sentence in sentences:
        ids.append(BOS)
        ids.extend(map(numbers.get, sentence, repeat(UNK)))
        ids.append(EOS)
    file = files.new(np.int32)
    file.append(np.array(ids, np.int32))
    return Tokens(words, file)
