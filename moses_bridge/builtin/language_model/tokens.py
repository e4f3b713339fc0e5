"""A text as word numbers."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from moses_bridge.base import textio
from moses_bridge.base.array_file import ArrayFile, ArrayFiles
from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import track_lines
from moses_bridge.base.text_lines import read_text_lines

SPECIAL_WORDS = (b"<unk>", b"<s>", b"</s>")
UNK, BOS, EOS = range(3)
# Separators of words in lmplz (lm/builder/corpus_count.cc), but for the blank and the line feed.
SEPARATORS = bytes.maketrans(b"\0\t\r", b"   ")
TOKENS_AT_ONCE = 1 << 16  # are written together


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
