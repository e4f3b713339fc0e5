"""Distinct phrases, and tokenised phrases cached for repeated use."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rescorer.contract.vocabulary import Vocabulary

Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, eq=False)
class NumberedWords:
    """Words by number; none of them contains a blank or a tab."""

    words: Sequence[bytes]
    _ids: dict[Vocabulary, NDArray[np.int32]] = field(default_factory=dict, repr=False)

    def ids_in(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """The id of each word in a vocabulary, cached, *Shape:* (n_words,)."""
        if vocabulary not in self._ids:
            self._ids[vocabulary] = vocabulary.encode_words(self.words, len(self.words))
        return self._ids[vocabulary]


@dataclass(frozen=True, eq=False)
class NumberedPhrases(Sequence[bytes]):
    """Phrases as numbers of words; an item is its text.

    The numbers are those of all phrases, concatenated, *Shape:* (n_words,); starts are the first word of each
    phrase, and n_words at the end, *Shape:* (n + 1,).
    """

    words: NumberedWords
    numbers: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        words = self.numbers[self.starts[number] : self.starts[number + 1]]
        return b" ".join([self.words.words[word] for word in words])

    def distinct(self) -> tuple[NumberedPhrases, NDArray[np.int64]]:
        """The distinct items in order of first occurrence, and the place of each item in them, (n_items,)."""
        numbers: dict[bytes, int] = {}
        keys = pieces(self.numbers, self.starts)
        which = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64)
        starts = np.cumsum([0, *(len(key) for key in numbers)]) // self.numbers.itemsize
        words = np.frombuffer(b"".join(numbers), self.numbers.dtype)
        return NumberedPhrases(self.words, words, starts), which

    def encoded(self, vocabulary: Vocabulary) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """See `Vocabulary.encode_text`."""
        return self.words.ids_in(vocabulary)[self.numbers], np.diff(self.starts)


def pieces(numbers: NDArray[np.generic], starts: NDArray[np.int64]) -> list[bytes]:
    """Parts of an array as bytes, equal for equal numbers.

    Starts are the first number of each part, and the end of the last, *Shape:* (n + 1,).
    """
    data, places = numbers.tobytes(), (starts * numbers.itemsize).tolist()
    return [data[first:end] for first, end in pairwise(places)]


def distinct(items: Sequence[Item]) -> tuple[list[Item], NDArray[np.int64]]:
    """The different items in order of first occurrence, and which of them each item is, *Shape:* (n_items,)."""
    numbers = {item: number for number, item in enumerate(dict.fromkeys(items))}
    return list(numbers), np.fromiter((numbers[item] for item in items), np.int64, len(items))


def distinct_phrases(phrases: Sequence[bytes]) -> tuple[Sequence[bytes], NDArray[np.int64]]:
    """See `distinct`; phrases given as numbers of words stay numbers."""
    return phrases.distinct() if isinstance(phrases, NumberedPhrases) else distinct(phrases)
