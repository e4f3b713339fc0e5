"""Parallel text with word links as arrays of numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import InputError
from moses_bridge.formats.alignment import parse_links
from moses_bridge.formats.phrase_table import BAR
from moses_bridge.formats.words import split_words
from moses_bridge.textio import StrPath, read_lines, read_parallel


@dataclass(frozen=True)
class Text:
    """One side of a corpus.

    Attributes:
        vocabulary: the distinct words and `|||`, in the order in which `LC_ALL=C sort` puts lines
            that begin with them: word plus blank compared byte by byte.
        words: (n_words,) numbers of the running words in the vocabulary.
        starts: (n_sentences + 1,) where each sentence begins in `words`.
        bar: number of `|||`, which ends a phrase in a table.
    """

    vocabulary: list[bytes]
    words: NDArray[np.int32]
    starts: NDArray[np.int64]
    bar: int


class Links(NamedTuple):
    """The links seen from one side: those of word i are `others[starts[i]:starts[i + 1]]`.

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


def read_aligned_corpus(source: StrPath, target: StrPath, links: StrPath) -> AlignedCorpus:
    """Read two tokenised texts and the links between them, line by line.

    Words are what stands between blanks and tabs.

    Raises:
        InputError: a file is shorter than another, a link is malformed or points past the end of
            its sentence, or a word is `|||`.
    """
    source_text, target_text = read_text(source), read_text(target)
    pairs = _read_links(links, source_text, target_text)
    _check_same_length(source, target, links, source_text, target_text)
    return AlignedCorpus(
        source_text,
        target_text,
        _links_from(pairs[:, 0], pairs[:, 1], len(source_text.words)),
        _links_from(pairs[:, 1], pairs[:, 0], len(target_text.words)),
    )


def read_text(path: StrPath) -> Text:
    """Read one tokenised text.

    Raises:
        InputError: a word is `|||`, which separates the columns of a table.
    """
    numbers: dict[bytes, int] = {BAR: 0}
    words, starts = array("i"), array("q", [0])
    for line_number, line in enumerate(read_lines(path), start=1):
        tokens = split_words(line)
        if BAR in tokens:
            raise InputError(
                path,
                line_number,
                "the word '|||'",
                "text in which bars are escaped",
                "Write &#124; for a bar, as the tokenizer of Moses does",
            )
        words.extend(numbers.setdefault(token, len(numbers)) for token in tokens)
        starts.append(len(words))
    return _in_sorted_numbers(numbers, np.array(words), np.array(starts))


def _in_sorted_numbers(
    numbers: dict[bytes, int], words: NDArray[np.int32], starts: NDArray[np.int64]
) -> Text:
    vocabulary = sorted(numbers, key=lambda word: word + b" ")
    rank = np.empty(len(numbers), np.int32)
    rank[[numbers[word] for word in vocabulary]] = np.arange(len(numbers), dtype=np.int32)
    return Text(vocabulary, rank[words], starts, int(rank[numbers[BAR]]))


def _read_links(path: StrPath, source: Text, target: Text) -> NDArray[np.int32]:
    """(n_links, 2) positions in the running texts, distinct, ascending."""
    ends = array("i")
    n_sentences = min(len(source.starts), len(target.starts)) - 1
    for sentence, line in enumerate(read_lines(path)):
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
    return np.array(ends).reshape(-1, 2)


def _check_same_length(
    source: StrPath, target: StrPath, links: StrPath, source_text: Text, target_text: Text
) -> None:
    if len(source_text.starts) != len(target_text.starts):
        _find_shorter(source, target)
    n_links = sum(1 for _ in read_lines(links))
    if n_links != len(source_text.starts) - 1:
        raise InputError(
            links, n_links + 1, "the end of the file", f"{len(source_text.starts) - 1} lines"
        )


def _find_shorter(*paths: StrPath) -> None:
    for _ in read_parallel(*paths):
        pass


def _links_from(ones: NDArray[np.int32], others: NDArray[np.int32], n_words: int) -> Links:
    order = np.lexsort((others, ones))
    counts = np.bincount(ones, minlength=n_words)
    return Links(np.concatenate(([0], np.cumsum(counts))).astype(np.int64), others[order])


def words_of(text: Text, numbers: Iterable[int]) -> bytes:
    """The words with these numbers, separated by blanks."""
    return b" ".join(text.vocabulary[number] for number in numbers)
