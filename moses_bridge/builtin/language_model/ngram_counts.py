"""All n-grams of a text, counted order by order."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from moses_bridge import textio
from moses_bridge.errors import InputError
from moses_bridge.line_progress import track_lines
from moses_bridge.progress import track

SPECIAL_WORDS = (b"<unk>", b"<s>", b"</s>")
UNK, BOS, EOS = range(3)
# What lmplz parts words at (lm/builder/corpus_count.cc), but for the blank and the line feed.
SEPARATORS = bytes.maketrans(b"\0\t\r", b"   ")


@dataclass(frozen=True)
class Tokens:
    """A text as one row of word numbers, each sentence as <s> w1 ... wn </s>.

    Attributes:
        words: the words by number, numbered as they first appear behind <unk>, <s> and </s>.
        ids: (n_tokens,) int32.
        places: (n_tokens,) int32, distance from the sentence's <s>.
    """

    words: list[bytes]
    ids: NDArray[np.int32]
    places: NDArray[np.int32]


@dataclass(frozen=True)
class NGramCounts:
    """The different n-grams of one order, sorted by last word, then the word before it, and so on.

    Attributes:
        first_words: (n,) int32, number of the first word.
        suffixes: (n,) int64, index of the n-gram without its first word, one order lower.
        contexts: (n,) int64, index of the n-gram without its last word, one order lower.
        raw: (n,) int64, occurrences in the text.
    """

    first_words: NDArray[np.int32]
    suffixes: NDArray[np.int64]
    contexts: NDArray[np.int64]
    raw: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.raw)


def read_tokens(path: textio.StrPath) -> Tokens:
    """Number the words of a text; lines end at a line feed, words at blanks, tabs, NUL and CR.

    Raises:
        InputError: the text has no line, or one of <unk>, <s>, </s> as a word.
    """
    numbers = {word: number for number, word in enumerate(SPECIAL_WORDS)}
    ids: list[int] = []
    lengths: list[int] = []
    for line_number, line in enumerate(
        track_lines(textio.read_lines(path), "read words", path, "lines"), start=1
    ):
        words = words_of_line(line)
        sentence = [numbers.setdefault(word, len(numbers)) for word in words]
        if sentence and min(sentence) <= EOS:
            word = SPECIAL_WORDS[min(sentence)].decode()
            raise InputError(
                path, line_number, f"the word {word}", "plain words", "Escape or remove it"
            )
        ids += (BOS, *sentence, EOS)
        lengths.append(len(sentence) + 2)
    if not lengths:
        raise InputError(path, None, "no lines", "a text with at least one line")
    return Tokens(list(numbers), np.array(ids, np.int32), _places(np.array(lengths)))


def words_of_line(line: bytes) -> list[bytes]:
    """The words of a line, as `lmplz` parts them."""
    return [word for word in line.translate(SEPARATORS).split(b" ") if word]


def tokens_within(sentences: Iterable[Sequence[bytes]], vocabulary: Sequence[bytes]) -> Tokens:
    """Number the words of sentences by a vocabulary that is given; all others are <unk>.

    Args:
        sentences: the words of each sentence.
        vocabulary: words, each once, none of <unk>, <s>, </s>; the same one gives the same numbers.
    """
    words = [*SPECIAL_WORDS, *vocabulary]
    numbers = {word: number for number, word in enumerate(words) if number > EOS}
    ids = array("i")
    lengths = array("q")
    for sentence in sentences:
        ids.append(BOS)
        ids.extend(map(numbers.get, sentence, repeat(UNK)))
        ids.append(EOS)
        lengths.append(len(sentence) + 2)
    return Tokens(words, np.array(ids, np.int32), _places(np.array(lengths)))


def _places(lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    starts = np.cumsum(lengths) - lengths
    return (np.arange(lengths.sum()) - np.repeat(starts, lengths)).astype(np.int32)


def count_ngrams(tokens: Tokens, order: int) -> list[NGramCounts]:
    """Count the n-grams of orders 1 to `order`; unigram i is word i, <unk> and <s> count 0."""
    n_words = len(tokens.words)
    ends = np.flatnonzero(tokens.places > 0)
    kinds = tokens.ids.astype(np.int64)
    nothing = np.zeros(n_words, np.int64)
    raw = np.bincount(kinds[ends], minlength=n_words)
    orders = [NGramCounts(np.arange(n_words, dtype=np.int32), nothing, nothing, raw)]
    for length in track(range(2, order + 1), "count n-grams", order - 1, "orders"):
        ends = ends[tokens.places[ends] >= length - 1]
        first_words = tokens.ids[ends - (length - 1)]
        keys, positions, inverse, raw = np.unique(
            kinds[ends] * n_words + first_words,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        suffixes, first = np.divmod(keys, n_words)
        contexts = kinds[ends[positions] - 1]
        orders.append(NGramCounts(first.astype(np.int32), suffixes, contexts, raw))
        kinds = np.full_like(kinds, -1)
        kinds[ends] = inverse
    return orders


def adjusted_counts(orders: list[NGramCounts]) -> list[NDArray[np.int64]]:
    """Counts as Kneser-Ney smoothing wants them (Chen and Goodman 1998, section 3; Heafield 2013).

    The highest order and n-grams that begin with <s> keep their occurrences, all others count the
    different words that stand before them.
    """
    adjusted = [
        np.where(
            lower.first_words == BOS,
            lower.raw,
            np.bincount(higher.suffixes, minlength=len(lower)),
        )
        for lower, higher in pairwise(orders)
    ]
    return [*adjusted, orders[-1].raw]
