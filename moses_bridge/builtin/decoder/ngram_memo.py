"""Memory of a neural model's values of n-grams, so that none is computed twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import FREE, find_key, hash_next, hash_number, n_slots
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.errors import UserError
from moses_bridge.formats.ngram_scorer import Answer

MAX_NGRAMS = 1 << 20  # 30 MB
FIRST_ROOM = 1 << 14
CODE_BITS = np.uint64(2**63 - 1)

Compute = Callable[[NDArray[np.int32]], Answer]


class NgramTable(NamedTuple):
    """A hash table from n-grams to numbers; an n-gram is identified by a hash of 63 bits."""

    codes: NDArray[np.int64]  # FREE in a free slot
    numbers: NDArray[np.int32]


# Maps the known n-grams and their number to the place of each n-gram, and the new ones.
Enter = Callable[[NgramTable, int], tuple[NDArray[np.int64], NDArray[np.int32]]]


def free_table(n_ngrams: int) -> NgramTable:
    """Make a table with room for n_ngrams n-grams."""
    codes = np.full(n_slots(n_ngrams), FREE, np.int64)
    return NgramTable(codes, np.empty(len(codes), np.int32))


class NgramMemo:
    """A function of n-grams, computed once for each distinct n-gram, with all new ones in one call.

    Among a million n-grams, two have equal hashes with a probability of 6e-8. `begin` begins to compute the
    function, (n, width) -> (n,), and returns a function waiting for the values. Beyond max_ngrams, once in
    thousands of sentences, all are forgotten.
    """

    def __init__(self, begin: Compute, max_ngrams: int = MAX_NGRAMS) -> None:
        self._begin = begin
        self._max_ngrams = max_ngrams
        self._make_room(FIRST_ROOM)

    def forget(self) -> None:
        """Forget all values, since n-grams have another meaning from now on."""
        self._size = 0
        self._table.codes[:] = FREE

    def __call__(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """The function's values, *Shape:* (n, width) -> (n,); UserError if one is not finite."""
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
        """As `ask`, for n-grams in several arrays, entered by compiled code with `enter_ngrams`.

        n_ngrams is at least their number; `enter` numbers the places of new ones from the known ones on.

        Returns:
            A function waiting for the values of all places, and the place of each n-gram, (n,).
        """
        if self._size + n_ngrams > self._max_ngrams:
            self.forget()
        if self._size + n_ngrams > len(self._values):
            self._grow(2 * (self._size + n_ngrams))
        first = self._size
        places, new = enter(self._table, first)
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
        self._table = free_table(n_ngrams)
        self._values = np.empty(n_ngrams, np.float32)

    def _grow(self, n_ngrams: int) -> None:
        size, table, values = self._size, self._table, self._values[: self._size]
        self._make_room(n_ngrams)
        enter_numbers(*table, self._table)
        self._size, self._values[:size] = size, values


@compiled
def _enter(ngrams: Any, table: NgramTable, size: int) -> tuple[Any, Any]:
    """Enter n-grams, (n, width) int32; return the place of each, and the new ones."""
    places, new = np.empty(len(ngrams), np.int64), np.empty(ngrams.shape, np.int32)
    return places, new[: enter_ngrams(ngrams, table, size, places, new)]


@inner
def enter_ngrams(ngrams: Any, table: NgramTable, size: int, places: Any, new: Any) -> int:
    """Enter n-grams, (n, width) int32, in a table of the places of `size` known ones.

    Fill `places` (n,) int64, new ones after the known ones, and the first rows of `new` (n, width) int32 with
    the new n-grams; return their number.
    """
    # A separate loop, so that several hashes are computed at a time.
    for i in range(len(ngrams)):
        places[i] = ngram_code(hash_number(1), ngrams[i])
    n_new = 0
    for i in range(len(ngrams)):
        slot = find_key(table.codes, places[i])
        if table.codes[slot] == FREE:
            table.codes[slot], table.numbers[slot] = places[i], size + n_new
            for j in range(ngrams.shape[1]):
                new[n_new, j] = ngrams[i, j]
            n_new += 1
        places[i] = table.numbers[slot]
    return n_new


@compiled
def enter_numbers(codes: Any, numbers: Any, table: NgramTable) -> int:
    """Enter hashes, (n,) int64, and their numbers, (n,) int32, and return how many are new.

    The table has room for them. FREE hashes are left out; of equal ones the last counts.
    """
    n_new = 0
    for i in range(len(codes)):
        if codes[i] != FREE:
            slot = find_key(table.codes, codes[i])
            n_new += table.codes[slot] == FREE
            table.codes[slot], table.numbers[slot] = codes[i], numbers[i]
    return n_new


@inner
def ngram_code(beginning: Any, numbers: Any) -> int:
    """The hash of numbers, at least 0, following others whose hash is `beginning`."""
    code = beginning
    for number in numbers:
        code = hash_next(code, number)
    return int(np.int64((code ^ (code >> np.uint64(32))) & CODE_BITS))
