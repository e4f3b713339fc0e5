"""Words counted in arrays, since millions of words need no Python object each, and shortlists of them.

A network knows a fixed number of words, or as many as make up a share of the running words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.vocabulary import SPECIALS, Shortlists, Vocabulary

# Words made Python objects at a time while all are passed.
WORDS_AT_ONCE = 100_000
NO_NUMBERS: NDArray[np.int64] = np.empty(0, np.int64)
SIDES = ("source", "target")


@dataclass(frozen=True)
class WordList:
    """Words by number: their text, "\\n" after each, and where each ends before it, *Shape:* (n_words,)."""

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
    """How often each word occurs in a text, 0 for uncounted ones, (n_words,); </s> and <unk> are no words."""

    words: WordList
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, counter: Counter[bytes]) -> WordCounts:
        """Counts made in Python."""
        counts = np.fromiter(counter.values(), np.int64, len(counter))
        return cls.among(WordList.of(list(counter)), counts)

    @classmethod
    def among(cls, words: WordList, counts: NDArray[np.int64]) -> WordCounts:
        """Counts of all words; words spelt like </s> or <unk> count as 0."""
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


@dataclass(frozen=True)
class ChosenShortlists:
    """The most frequent words of each side, and their share of its running words, 0 to 1."""

    shortlists: Shortlists
    covered: tuple[float, float]

    def record(self) -> dict[str, Mapping[str, float]]:
        """Words and share of each side, to be kept with a model."""
        return {
            side: {"words": _n_words(words), "covered": round(share, 6)}
            for side, words, share in zip(SIDES, self.shortlists, self.covered, strict=True)
        }

    def __str__(self) -> str:
        sides = (
            f"{_n_words(words):,} {side} words ({share:.1%} of the text)"
            for side, words, share in zip(SIDES, self.shortlists, self.covered, strict=True)
        )
        return f"shortlists: {', '.join(sides)}"


def choose_shortlists(
    counts: Sequence[WordCounts], n_words: int, coverage: float
) -> ChosenShortlists:
    """The n_words most frequent words of each side; with a coverage, the fewest with that share of all."""
    source, target = (
        Vocabulary(of_side.most_frequent(_n_covering(of_side, coverage) if coverage else n_words))
        for of_side in counts
    )
    covered = (_covered(source, counts[0]), _covered(target, counts[1]))
    return ChosenShortlists(Shortlists(source, target), covered)


def _n_covering(counts: WordCounts, share: float) -> int:
    sums = np.cumsum(counts.falling())
    wanted = share * sums[-1] if len(sums) else 0.0
    return int(min(np.searchsorted(sums, wanted) + 1, max(1, len(sums))))


def _covered(words: Vocabulary, counts: WordCounts) -> float:
    known = int(counts.falling()[: len(words) - len(SPECIALS)].sum())
    return known / max(1, counts.n_running)


def _n_words(words: Vocabulary | None) -> int:
    return 0 if words is None else len(words) - len(SPECIALS)
