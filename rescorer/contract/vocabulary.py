"""Shortlists: the most frequent words and their ids; every other word is <unk>."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, read_lines, write_lines
from moses_bridge.formats.words import split_phrases, split_words
from rescorer.contract.numbered_phrases import NumberedPhrases

if TYPE_CHECKING:
    from moses_bridge.base.compiled.lexicon import Lexicon

END = b"</s>"
UNKNOWN = b"<unk>"
SPECIALS = (END, UNKNOWN)
# From so many on compiled code is worth its loading.
MANY_PHRASES = 1000


class Vocabulary:
    """Words and ids: 0 is </s>, 1 is <unk>, then the words by falling frequency.

    A word of a phrase spelt </s> is unknown: only the end of a phrase is its end.
    `words` is the shortlist without the two special words.
    """

    end_id = 0
    unknown_id = 1

    def __init__(self, words: Sequence[bytes]) -> None:
        self.words = (*SPECIALS, *words)
        self._ids = {word: number for number, word in enumerate(self.words)}
        del self._ids[END]

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _lexicon(self) -> Lexicon:
        """All words, for compiled code."""
        from moses_bridge.base.compiled.lexicon import Lexicon

        return Lexicon(self.words)

    @classmethod
    def from_counts(cls, counts: Counter[bytes], n_words: int) -> Vocabulary:
        """The n_words most frequent words; ties are broken by the word, so the result is fixed."""
        known = ((word, count) for word, count in counts.items() if word not in SPECIALS)
        ranked = sorted(known, key=lambda item: (-item[1], item[0]))
        return cls([word for word, _ in ranked[:n_words]])

    @classmethod
    def load(cls, path: StrPath) -> Vocabulary:
        """Read what `save` wrote.

        Raises:
            InputError: the first lines are not </s> and <unk>, or a word is there twice.
        """
        words = list(read_lines(path))
        for number, special in enumerate(SPECIALS):
            if words[number : number + 1] != [special]:
                raise InputError(
                    path, number + 1, repr(words[number : number + 1]), special.decode()
                )
        vocabulary = cls(words[len(SPECIALS) :])
        if len(set(words)) != len(words):
            raise InputError(path, None, "a word twice", "each word once")
        return vocabulary

    def save(self, path: StrPath) -> None:
        """Write the words, one a line, in the order of their ids."""
        write_lines(path, list(self.words))

    def encode_words(self, words: Iterable[bytes], n_words: int = -1) -> NDArray[np.int32]:
        """The id of each word, *Shape:* (n_words,); faster if n_words is given."""
        ids = map(self._ids.get, words, itertools.repeat(self.unknown_id))
        return np.fromiter(ids, np.int32, n_words)

    def encode_phrases(
        self, phrases: Sequence[bytes]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Ids of phrases, </s> (0) once or more after each, (n, max_len + 1), and words of each, (n,)."""
        flat, lens = self.encode_text(phrases)
        ids = np.full((len(lens), int(lens.max(initial=0)) + 1), self.end_id, np.int32)
        ids[np.arange(ids.shape[1])[None, :] < lens[:, None]] = flat
        return ids, lens

    def encode_text(self, phrases: Sequence[bytes]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Ids of phrases, concatenated, *Shape:* (n_words,), and the number of words of each, *Shape:* (n,)."""
        if isinstance(phrases, NumberedPhrases):
            return phrases.encoded(self)
        if len(phrases) >= MANY_PHRASES:
            from moses_bridge.formats.word_numbers import word_numbers

            numbers, lens = word_numbers(phrases, self._lexicon.tables)
            return np.where(numbers > self.end_id, numbers, np.int32(self.unknown_id)), lens
        words, lens = split_phrases(phrases)
        return self.encode_words(words, len(words)), lens

    def n_unknown(self, phrases: Sequence[bytes]) -> NDArray[np.int64]:
        """Words outside the shortlist in each phrase, *Shape:* (n,)."""
        ids, lens = self.encode_text(phrases)
        phrase = np.repeat(np.arange(len(lens)), lens)
        return np.bincount(phrase[ids == self.unknown_id], minlength=len(lens))


def count_words(phrases: Iterable[bytes]) -> Counter[bytes]:
    """How often each word occurs in the phrases."""
    counts: Counter[bytes] = Counter()
    for phrase in phrases:
        counts.update(split_words(phrase))
    return counts


class Shortlists(NamedTuple):
    """The words a network knows; `source` is None where it sees no source words."""

    source: Vocabulary | None
    target: Vocabulary

    @property
    def source_words(self) -> Vocabulary:
        """The source words; a ValueError if the network sees none."""
        if self.source is None:
            raise ValueError("phrase pairs need a source shortlist")
        return self.source
