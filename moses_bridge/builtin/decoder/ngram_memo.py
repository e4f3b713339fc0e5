"""Memory of a neural model's values of n-grams, so that none is computed twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import UserError
from moses_bridge.compiled.hash_table import hash_next, hash_number, n_slots, slot_of
from moses_bridge.compiled.inner import inner
from moses_bridge.compiled.kept_code import compiled
from moses_bridge.formats.ngram_scorer import Answer

MAX_NGRAMS = 1 << 20  # 40 MB
FIRST_ROOM = 1 << 14
NO_CODE = 0

Compute = Callable[[NDArray[np.int32]], Answer]
# From slots and the number of known n-grams to the place of each n-gram, and the new ones.
Enter = Callable[[NDArray[np.int64], int], tuple[NDArray[np.int64], NDArray[np.int32]]]


class NgramMemo:
    """A function of n-grams, computed once for each distinct n-gram, with all new ones in one call.

    N-grams are distinguished by hashes of 64 bits; among a million, two have equal hashes with a probability
    of 3e-8.

    Args:
        begin: begins to compute the function, (n, width) -> (n,), and returns a function waiting for the
            values.
        max_ngrams: if there would be more n-grams, all are forgotten. Choosing some would be more complicated,
            and it happens once in thousands of sentences.
    """

    def __init__(self, begin: Compute, max_ngrams: int = MAX_NGRAMS) -> None:
        self._begin = begin
        self._max_ngrams = max_ngrams
        self._make_room(FIRST_ROOM)

    def forget(self) -> None:
        """Forget all values, since n-grams have another meaning from now on."""
        self._size = 0
        self._slots[:] = NO_CODE

    def __call__(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """The function's values, *Shape:* (n, width) -> (n,).

        Raises:
            UserError: a value is not a finite number.
        """
        return self.ask(ngrams)()

    def ask(self, ngrams: NDArray[np.int32]) -> Answer:
        """Begin to compute the values of n-grams, (n, width) int32.

        Returns:
            A function waiting for the values, (n,); call it before the next `ask`. It raises UserError if a
            value is not finite.
        """
        wait, places = self.ask_entered(len(ngrams), partial(_enter, ngrams))
        return lambda: np.asarray(wait()[places])

    def ask_entered(self, n_ngrams: int, enter: Enter) -> tuple[Answer, NDArray[np.int64]]:
        """As `ask`, for n-grams that are not in one array: compiled code enters them with `enter_ngrams`.

        Args:
            n_ngrams: the number of n-grams, or more.
            enter: enters them; new ones get places from the number of known n-grams on.

        Returns:
            A function waiting for the values of all places, and the place of each n-gram, (n,).
        """
        if self._size + n_ngrams > self._max_ngrams:
            self.forget()
        if self._size + n_ngrams > len(self._values):
            self._grow(2 * (self._size + n_ngrams))
        first = self._size
        places, new = enter(self._slots, first)
        self._size += len(new)
        if not len(new):
            return lambda: self._values, places
        answer = self._begin(new)
        return lambda: self._receive(answer, first), places

    def _receive(self, answer: Answer, first: int) -> NDArray[np.float32]:
        values = answer()
        if not np.isfinite(values).all():
            raise UserError("the neural language model gave a value that is not a finite number")
        self._values[first : self._size] = values
        return self._values

    def _make_room(self, n_ngrams: int) -> None:
        self._size = 0
        self._slots = np.zeros((n_slots(n_ngrams), 2), np.int64)
        self._values = np.empty(n_ngrams, np.float32)

    def _grow(self, n_ngrams: int) -> None:
        size, slots, values = self._size, self._slots, self._values[: self._size]
        self._make_room(n_ngrams)
        _enter_again(slots, self._slots)
        self._size, self._values[:size] = size, values


@compiled
def _enter(ngrams: Any, slots: Any, size: int) -> tuple[Any, Any]:
    """Enter n-grams; return the place of each, new ones behind the others, and the new ones.

    Args:
        ngrams: (n, width) int32.
        slots: (n_slots, 2) int64, hash and place of each known n-gram; NO_CODE in a free slot.
        size: number of known n-grams.
    """
    places, new = np.empty(len(ngrams), np.int64), np.empty(ngrams.shape, np.int32)
    return places, new[: enter_ngrams(ngrams, slots, size, places, new)]


@inner
def enter_ngrams(ngrams: Any, slots: Any, size: int, places: Any, new: Any) -> int:
    """Enter n-grams; return the number of new ones.

    Args:
        ngrams: (n, width) int32.
        slots: see `_enter`.
        size: see `_enter`.
        places: (n,) int64; filled with the place of each n-gram.
        new: (n, width) int32; its first rows are filled with the new n-grams.
    """
    for i in range(len(ngrams)):
        places[i] = _code_of(ngrams[i])
    n_new = 0
    for i in range(len(ngrams)):
        slot = _find(places[i], slots)
        if slots[slot, 0] == NO_CODE:
            slots[slot, 0], slots[slot, 1] = places[i], size + n_new
            for j in range(ngrams.shape[1]):
                new[n_new, j] = ngrams[i, j]
            n_new += 1
        places[i] = slots[slot, 1]
    return n_new


@compiled
def _enter_again(old: Any, slots: Any) -> None:
    for i in range(len(old)):
        if old[i, 0] != NO_CODE:
            slot = _find(old[i, 0], slots)
            slots[slot, 0], slots[slot, 1] = old[i, 0], old[i, 1]


@inner
def _code_of(ngram: Any) -> int:
    code = hash_number(1)
    for word in ngram:
        code = hash_next(code, word)
    number = np.int64(code ^ (code >> np.uint64(32)))
    return int(number) if number != NO_CODE else 1


@inner
def _find(code: int, slots: Any) -> int:
    """The slot of a hash, or the free slot for it."""
    mask = len(slots) - 1
    slot = slot_of(np.uint64(code), len(slots))
    while slots[slot, 0] != code and slots[slot, 0] != NO_CODE:
        slot = (slot + 1) & mask
    return int(slot)
