"""Hypotheses of a search, kept as columns, with those lost to recombination."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class Lattice(NamedTuple):
    """Hypothesis 0 is the empty one; each other one extends `previous` by one phrase.

    Attributes:
        score: weighted sum of all features so far.
        total: score and the estimate for the rest of the sentence.
        previous: the hypothesis extended.
        row: the phrase pair, a row of the model; -1 in hypothesis 0.
        start: its first source word; -1 in hypothesis 0.
        end: its last source word; -1 in hypothesis 0.
        lm: natural log probability that this phrase added.
        n_context: how many words of `context` count.
        context: (n_hypotheses, order - 1) words for the language model, most recent first.
        coverage: (n_hypotheses, n) uint64, bit i set if source word i is translated.
        first_arc: another hypothesis of the same state with a lower score; -1 if there is none.
        next_arc: the next such hypothesis, in the column of one that lost.
    """

    score: Any
    total: Any
    previous: Any
    row: Any
    start: Any
    end: Any
    lm: Any
    n_context: Any
    context: Any
    coverage: Any
    first_arc: Any
    next_arc: Any


@njit(cache=True)
def new_lattice(n_places: int, n_words: int, order: int) -> Lattice:
    """Room for n_places hypotheses of a sentence of n_words; 0 is filled in but for its context."""
    return Lattice(
        np.zeros(n_places),
        np.zeros(n_places),
        np.full(n_places, -1, np.int32),
        np.full(n_places, -1, np.int64),
        np.full(n_places, -1, np.int32),
        np.full(n_places, -1, np.int32),
        np.zeros(n_places),
        np.zeros(n_places, np.int32),
        np.zeros((n_places, max(1, order - 1)), np.int32),
        np.zeros((n_places, (n_words + 63) // 64), np.uint64),
        np.full(n_places, -1, np.int32),
        np.full(n_places, -1, np.int32),
    )


@njit(cache=True)
def is_covered(coverage: Any, position: int) -> bool:
    """Whether a source word is translated."""
    return bool((coverage[position >> 6] >> np.uint64(position & 63)) & np.uint64(1))


@njit(cache=True)
def cover(coverage: Any, start: int, end: int) -> None:
    """Mark source words start .. end as translated."""
    for position in range(start, end + 1):
        coverage[position >> 6] |= np.uint64(1) << np.uint64(position & 63)


@njit(cache=True)
def first_gap(coverage: Any, n_words: int) -> int:
    """The first source word not translated, n_words if there is none."""
    position = 0
    while position < n_words and is_covered(coverage, position):
        position += 1
    return position


@njit(cache=True)
def same(one: Any, other: Any) -> bool:
    """Whether two arrays of one length are equal."""
    n_equal = 0
    while n_equal < len(one) and one[n_equal] == other[n_equal]:
        n_equal += 1
    return n_equal == len(one)


@njit(cache=True)
def hash_of(numbers: Any, value: int) -> int:
    """A hash value with an array of numbers added."""
    for number in numbers:
        value = mix(value, np.int64(number))
    return value


@njit(cache=True)
def mix(value: int, number: int) -> int:
    """Add a number to a 64-bit hash value (multiplication and shift as in splitmix64)."""
    mixed = (np.uint64(value) ^ np.uint64(np.int64(number))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    mixed = (mixed + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(32))  # type: ignore[no-any-return]


@njit(cache=True)
def first_slot(value: int, n_slots: int) -> int:
    """Where a hash value belongs among n_slots, a power of two."""
    return np.int64(np.uint64(value) & np.uint64(n_slots - 1))  # type: ignore[return-value]
