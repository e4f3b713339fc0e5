"""N-grams that a neural language model has scored, so that none is computed twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.hash_table import FREE, hash_next, hash_number, n_slots, slot_of
from moses_bridge.compiled.inner import inner
from moses_bridge.errors import UserError

MAX_NGRAMS = 1 << 20  # 40 MB for n-grams of 7 words
FIRST_ROOM = 1 << 14

Compute = Callable[[NDArray[np.int32]], NDArray[np.float32]]


class NgramMemo:
    """A function of n-grams that is computed once for each distinct one, all new ones in one call.

    Args:
        compute: the function: natural log p(last word | words before it), (n, order) -> (n,).
        order: words of an n-gram.
        max_ngrams: when there would be more, all are forgotten, which is simpler than to choose some
            and happens once in thousands of sentences.
    """

    def __init__(self, compute: Compute, order: int, max_ngrams: int = MAX_NGRAMS) -> None:
        self._compute = compute
        self._max_ngrams = max_ngrams
        self._size = 0
        self._slots = np.zeros(0, np.int32)
        self._keys = np.zeros((0, order), np.int32)
        self._values = np.zeros(0, np.float32)
        self._make_room(FIRST_ROOM)

    def __call__(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """The function's values, *Shape:* (n, order) -> (n,).

        Raises:
            UserError: a value is not a finite number.
        """
        if self._size + len(ngrams) > self._max_ngrams:
            self._make_room(max(FIRST_ROOM, len(ngrams)))
        elif self._size + len(ngrams) > len(self._keys):
            self._grow(2 * (self._size + len(ngrams)))
        first = self._size
        places, self._size = _enter(ngrams, self._slots, self._keys, first)
        if self._size > first:
            self._values[first : self._size] = self._ask(self._keys[first : self._size])
        return np.asarray(self._values[places])

    def _ask(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        values = self._compute(ngrams)
        if not np.isfinite(values).all():
            raise UserError("the neural language model gave a value that is not a finite number")
        return values

    def _make_room(self, n_ngrams: int) -> None:
        self._size = 0
        self._slots = np.full(n_slots(n_ngrams), FREE, np.int32)
        self._keys = np.empty((n_ngrams, self._keys.shape[1]), np.int32)
        self._values = np.empty(n_ngrams, np.float32)

    def _grow(self, n_ngrams: int) -> None:
        keys, values = self._keys[: self._size], self._values[: self._size]
        self._make_room(n_ngrams)
        _, self._size = _enter(keys, self._slots, self._keys, 0)
        self._values[: self._size] = values


@njit(cache=True)
def _enter(ngrams: Any, slots: Any, keys: Any, size: int) -> tuple[Any, int]:
    """The place of each n-gram among the keys, new ones behind the others; the number of keys."""
    places = np.empty(len(ngrams), np.int32)
    for i in range(len(ngrams)):
        slot = _slot_of(ngrams[i], slots, keys)
        if slots[slot] == FREE:
            slots[slot] = size
            keys[size] = ngrams[i]
            size += 1
        places[i] = slots[slot]
    return places, size


@inner
def _slot_of(ngram: Any, slots: Any, keys: Any) -> int:
    code = hash_number(1)
    for word in ngram:
        code = hash_next(code, word)
    mask = len(slots) - 1
    slot = slot_of(code, len(slots))
    while slots[slot] != FREE and not _same(keys[slots[slot]], ngram):
        slot = (slot + 1) & mask
    return int(slot)


@inner
def _same(one: Any, other: Any) -> bool:
    for i in range(len(one)):  # noqa: SIM110 (slow when compiled)
        if one[i] != other[i]:
            return False
    return True
