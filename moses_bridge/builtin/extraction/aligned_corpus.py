"""Parallel text with word links as number arrays."""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, ArrayFiles, parts
from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.errors import InputError
from moses_bridge.base.text_lines import read_parallel, read_text_lines
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.alignment import parse_links
from moses_bridge.formats.row_columns import BAR
from moses_bridge.formats.words import split_words

SENTENCES_AT_ONCE = 10_000
WORDS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Text:
    """One side of a corpus.

    Attributes:
        vocabulary: the distinct words and `|||`, in the order of lines beginning with them under
            `LC_ALL=C sort`: word plus blank compared byte by byte.
        words: (n_words,) vocabulary numbers of the running words.
        starts: (n_sentences + 1,) start of each sentence in `words`.
        bar: number of `|||`, the end of a phrase in a table.
    """

    vocabulary: list[bytes]
    words: NDArray[np.int32]
    starts: NDArray[np.int64]
    bar: int


class Links(NamedTuple):
    """Links seen from one side: those of word i are `others[starts[i]:starts[i + 1]]`.

    Attributes:
        starts: (n_words + 1,) offsets into `others`.
        others: (n_links,) positions in the running text of the other side, ascending for each word.
    """

    starts: NDArray[np.int64]
    others: NDArray[np.int32]


@dataclass(frozen=True)
class AlignedCorpus:
    """Both texts and their links, seen from the source (`of_source`) and from the target."""

    source: Text
    target: Text
    of_source: Links
    of_target: Links


def read_aligned_corpus(
    source: StrPath, target: StrPath, links: StrPath, directory: Path
) -> AlignedCorpus:
    """Read two tokenised texts and their links (source-target), line by line.

    Words are separated by blanks and tabs. The distinct words are in memory; all arrays are in anonymous
    files in `directory`, 12 bytes a word and 8 a link.

    Raises:
        InputError: a file is shorter than another, a link is malformed or points past the end of its
            sentence, or a word is `|||`.
        OSError: the disk is full.
    """
    source_text, target_text = read_text(source, directory), read_text(target, directory)
    with ArrayFiles(directory) as files:
        of_source, of_target = _SpilledLinks(files), _SpilledLinks(files)
        lines = enumerate(read_lines(links))
        for block in blocks_of(lines, SENTENCES_AT_ONCE):
            pairs = _read_links(links, block, source_text, target_text)
            first, end = block[0][0], block[-1][0] + 1
            of_source.add(*pairs.T, *source_text.starts[[first, end]].tolist())
            of_target.add(*pairs.T[::-1], *target_text.starts[[first, end]].tolist())
        _check_same_length(source, target, links, source_text, target_text)
        return AlignedCorpus(source_text, target_text, of_source.finish(), of_target.finish())


def read_text(path: StrPath, directory: Path) -> Text:
    """Read one tokenised text; its arrays are in files in `directory`.

    Raises:
        InputError: a word is `|||`, which separates the columns of a table.
    """
    numbers: defaultdict[bytes, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word gets the next number
    numbers[BAR] = 0
    waiting = array("i")
    with ArrayFiles(directory) as files:
        words, starts = files.new(np.int32), files.new(np.int64)
        starts.append(np.zeros(1))
        lines = enumerate(read_text_lines(path), start=1)
        for block in blocks_of(lines, SENTENCES_AT_ONCE):
            ends = array("q")
            for line_number, line in block:
                tokens = split_words(line)
                if BAR in tokens:
                    raise InputError(
                        path,
                        line_number,
                        "the word '|||'",
                        "text in which bars are escaped",
                        "Write &#124; for a bar, as the tokenizer of Moses does",
                    )
                waiting.extend([numbers[token] for token in tokens])
                ends.append(len(words) + len(waiting))
            words.append(np.array(waiting))
            starts.append(np.array(ends))
            del waiting[:]
        return _in_sorted_numbers(dict(numbers), words, starts)


def _in_sorted_numbers(
    numbers: dict[bytes, int], words: ArrayFile[np.int32], starts: ArrayFile[np.int64]
) -> Text:
    vocabulary = sorted(numbers, key=lambda word: word + b" ")
    rank = np.empty(len(numbers), np.int32)
    rank[[numbers[word] for word in vocabulary]] = np.arange(len(numbers), dtype=np.int32)
    for first, end in parts(len(words), WORDS_AT_ONCE):
        words.write(first, rank[words.read(first, end)])
    return Text(vocabulary, words.mapped(), starts.mapped(), int(rank[numbers[BAR]]))


def _read_links(
    path: StrPath, block: list[tuple[int, bytes]], source: Text, target: Text
) -> NDArray[np.int32]:
    """(n_links, 2) positions in the running texts, distinct, of some sentences."""
    ends = array("i")
    n_sentences = min(len(source.starts), len(target.starts)) - 1
    for sentence, line in block:
        if sentence >= n_sentences:
            raise InputError(path, sentence + 1, "a line", f"{n_sentences} lines, as the text has")
        source_start, source_end = map(int, source.starts[sentence : sentence + 2])
        target_start, target_end = map(int, target.starts[sentence : sentence + 2])
        for i, j in set(parse_links(line, path, sentence + 1)):
            if source_start + i >= source_end or target_start + j >= target_end:
                raise InputError(
                    path,
                    sentence + 1,
                    f"the link {i}-{j}",
                    f"source words below {source_end - source_start}"
                    f" and target words below {target_end - target_start}",
                    "The links must belong to these very texts",
                )
            ends.extend((source_start + i, target_start + j))
    return np.array(ends, np.int32).reshape(-1, 2)


def _check_same_length(
    source: StrPath, target: StrPath, links: StrPath, source_text: Text, target_text: Text
) -> None:
    if len(source_text.starts) != len(target_text.starts):
        deque(read_parallel(source, target), 0)  # refuses the shorter one
    n_links = sum(1 for _ in read_lines(links))
    if n_links != len(source_text.starts) - 1:
        raise InputError(
            links, n_links + 1, "the end of the file", f"{len(source_text.starts) - 1} lines"
        )


class _SpilledLinks:
    def __init__(self, files: ArrayFiles) -> None:
        self._starts, self._others = files.new(np.int64), files.new(np.int32)
        self._starts.append(np.zeros(1))

    def add(self, ones: NDArray[np.int32], others: NDArray[np.int32], first: int, end: int) -> None:
        """Add the links of the words from `first` to before `end`, in any order."""
        counts = np.bincount(ones - first, minlength=int(end - first))
        self._starts.append(len(self._others) + np.cumsum(counts))
        self._others.append(others[np.lexsort((others, ones))])

    def finish(self) -> Links:
        return Links(self._starts.mapped(), self._others.mapped())
