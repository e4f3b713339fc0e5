"""Folds of phrase pairs: a pair's fold is told by its words alone, so training and scoring agree on it.

A network that scores the pairs that it has learned from knows them by heart. With K folds there are K networks,
each of which has learned from all pairs but those of one fold, and a pair is scored by the one that has not
seen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.words import split_words
from rescorer.contract.distinct import distinct

# Odd, with bits all over: the multiplier of Fibonacci hashing, 2^64 over the golden ratio.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)

Hashes = NDArray[np.uint64]


class Fold(NamedTuple):
    """One of several folds.

    Attributes:
        number: from 0.
        n_folds: how many there are.
    """

    number: int
    n_folds: int


def word_hashes(words: Iterable[bytes]) -> Hashes:
    """A number for each word that depends on nothing else, *Shape:* (n_words,)."""
    digests = b"".join(blake2b(word, digest_size=8).digest() for word in words)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def phrase_hashes(words: NDArray[np.integer], lens: NDArray[np.integer], hashes: Hashes) -> Hashes:
    """A number for each phrase by its words in their order.

    Args:
        words: numbers of the words of one phrase after the other, *Shape:* (n_words,).
        lens: words of each phrase, *Shape:* (n,).
        hashes: of the words by number.

    Returns:
        *Shape:* (n,).
    """
    lens = lens.astype(np.int64)
    starts = np.cumsum(lens) - lens
    result = np.zeros(len(lens), np.uint64)
    for place in range(int(lens.max(initial=0))):
        longer = np.flatnonzero(lens > place)
        mixed = (result[longer] + hashes[words[starts[longer] + place]]) * MULTIPLIER
        result[longer] = mixed ^ (mixed >> HALF)
    return result


def folds_of_hashes(sources: Hashes, targets: Hashes, n_folds: int) -> NDArray[np.int64]:
    """The fold of each pair of phrases, the same one when the sides are swapped, *Shape:* (n,)."""
    mixed = (sources * MULTIPLIER ^ sources >> HALF) + (targets * MULTIPLIER ^ targets >> HALF)
    mixed = mixed * MULTIPLIER
    return ((mixed >> HALF) % np.uint64(n_folds)).astype(np.int64)


def folds_of(sources: Sequence[bytes], targets: Sequence[bytes], n_folds: int) -> NDArray[np.int64]:
    """The fold of each pair of phrases, *Shape:* (n,)."""
    sides = [[split_words(phrase) for phrase in side] for side in (sources, targets)]
    words, numbers = distinct(list(chain.from_iterable(chain.from_iterable(sides))))
    hashes = word_hashes(words)
    lens = [np.fromiter(map(len, side), np.int64, len(side)) for side in sides]
    parts = np.split(numbers, [int(lens[0].sum())])
    first, second = (
        phrase_hashes(part, side_lens, hashes) for part, side_lens in zip(parts, lens, strict=True)
    )
    return folds_of_hashes(first, second, n_folds)
