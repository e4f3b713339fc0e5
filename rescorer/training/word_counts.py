"""How often each word occurs in a text, in arrays: millions of words need no Python object each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.vocabulary import SPECIALS

# Words made Python objects at a time while all are passed.
WORDS_AT_ONCE = 100_000
NO_NUMBERS: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True)
class WordList:
    """Words by number.

    Attributes:
        text: the words, each followed by "\\n".
        ends: where each ends, before its "\\n", *Shape:* (n_words,).
    """

    text: bytes
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, words: Sequence[bytes]) -> WordList:
        """The list of words without "\\n" in them."""
        lens = np.fromiter(map(len, words), np.int64, len(words))
        return cls(b"".join(word + b"\n" for word in words), np.cumsum(lens + 1) - 1)

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[bytes]:
        for first in range(0, len(self), WORDS_AT_ONCE):
            last = min(first + WORDS_AT_ONCE, len(self)) - 1
            yield from self.text[self._start(first) : int(self.ends[last])].split(b"\n")

    def number_of(self, word: bytes) -> NDArray[np.int64]:
        """The number of a word, or none, *Shape:* (0 or 1,)."""
        place = (b"\n" + self.text).find(b"\n" + word + b"\n")
        return np.flatnonzero(self.ends == place + len(word)) if place >= 0 else NO_NUMBERS

    def at(self, numbers: NDArray[np.int64]) -> list[bytes]:
        """The words of some numbers."""
        return [self.text[self._start(number) : int(self.ends[number])] for number in numbers]

    def _start(self, number: int) -> int:
        return int(self.ends[number - 1]) + 1 if number else 0


@dataclass(frozen=True)
class WordCounts:
    """How often each word occurs in a text; </s> and <unk> are no words.

    Attributes:
        words: all words.
        counts: of each, 0 for what is not counted, *Shape:* (n_words,).
    """

    words: WordList
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, counter: Counter[bytes]) -> WordCounts:
        """Counts made in Python."""
        counts = np.fromiter(counter.values(), np.int64, len(counter))
        return cls.among(WordList.of(list(counter)), counts)

    @classmethod
    def among(cls, words: WordList, counts: NDArray[np.int64]) -> WordCounts:
        """Counts of all words, but those spelt like </s> or <unk> count nothing."""
        counts = counts.copy()
        for special in SPECIALS:
            counts[words.number_of(special)] = 0
        return cls(words, counts)

    @property
    def n_running(self) -> int:
        """All words of the text."""
        return int(self.counts.sum())

    def falling(self) -> NDArray[np.int64]:
        """The counts of the words in the text, the highest first, *Shape:* (n,)."""
        return np.sort(self.counts[self.counts > 0])[::-1]

    def most_frequent(self, n_words: int) -> list[bytes]:
        """The n_words most frequent words; ties are broken by the word, so the result is fixed."""
        falling = self.falling()[:n_words]
        if not len(falling):
            return []
        numbers = np.flatnonzero(self.counts >= falling[-1])
        ranked = zip((-self.counts[numbers]).tolist(), self.words.at(numbers), strict=True)
        return [word for _, word in sorted(ranked)[:n_words]]
