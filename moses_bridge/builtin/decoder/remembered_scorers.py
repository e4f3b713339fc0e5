"""Values of neural models kept from one text to the next.

A tuning translates the same text again and again, and its last decodings ask for hardly an n-gram that an
earlier one did not ask for. `NgramMemo` holds what a few sentences ask for, in a table that fits the cache of
the processor; what is new to it is looked up here before the model computes it. While all sentences are read
for the first time nothing is looked up, and values are entered into the table at the next look-up, so a text
that is translated once costs no table: to a model that sees the source all of its n-grams are new, and of those
that another one is asked for, so few are known that looking for them takes longer than computing them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.hash_table import (
    FREE,
    GOLDEN,
    find_key,
    hash_next,
    hash_number,
    n_slots,
    slot_of,
)
from moses_bridge.formats.ngram_scorer import (
    Answer,
    NgramScorer,
    ScorerProcess,
    ScorerProcesses,
    begin_estimates,
    n_places,
)

MAX_NGRAMS = 1 << 23  # 200 MB
FIRST_ROOM = 1 << 14
CODE_BITS = np.uint64(2**63 - 1)


class RememberedScorer:
    """An `NgramScorer` computing each value once: of an n-gram, and at a place of a sentence if it sees those.

    Args:
        scorer: the model; a value must depend on nothing else.
        max_ngrams: how many estimates, and how many exact values, are kept; if there would be more, all are
            forgotten.
    """

    def __init__(self, scorer: NgramScorer, max_ngrams: int = MAX_NGRAMS) -> None:
        self.order, self.start_id, self.end_id = scorer.order, scorer.start_id, scorer.end_id
        self.open_id, self.reads_source = scorer.open_id, scorer.reads_source
        self._scorer = scorer
        self._ids: dict[bytes, int] = {}
        self._places = np.zeros(0, np.int64)
        self._sentences: set[int] = set()
        self._are_new = False
        self._log_probs, self._estimates = _Values(max_ngrams), _Values(max_ngrams)

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`."""
        new = [word for word in dict.fromkeys(words) if word not in self._ids]
        self._ids.update(zip(new, self._scorer.encode(new).tolist(), strict=True))
        return np.array([self._ids[word] for word in words], np.int32)

    def read(self, sources: Sequence[bytes]) -> int:
        """See `NgramScorer`."""
        codes = [_place_codes(source) for source in sources]
        sentences = {int(of_sentence[0]) for of_sentence in codes}
        self._are_new = self._sentences.isdisjoint(sentences)
        self._sentences |= sentences
        if self.reads_source:
            self._places = np.concatenate([np.zeros(0, np.int64), *codes])
        return self._scorer.read(sources)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        begin = partial(partial, self._scorer.log_probs)
        return self._begin(begin, ngrams, self._log_probs)()

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self.begin_estimates(ngrams)()

    def begin_estimates(self, ngrams: NDArray[np.int32]) -> Answer:
        """See `BeginsEstimates`."""
        return self._begin(partial(begin_estimates, self._scorer), ngrams, self._estimates)

    def _begin(
        self,
        begin: Callable[[NDArray[np.int32]], Answer],
        ngrams: NDArray[np.int32],
        known: _Values,
    ) -> Answer:
        codes = _codes_of(ngrams, self._places)
        values, new = _all_new(codes) if self._are_new else known.look_up(codes)
        new_codes = codes[new]
        if not len(new_codes):
            return lambda: values
        answer = begin(ngrams[new])

        def wait() -> NDArray[np.float32]:
            values[new] = answer()
            known.enter(new_codes, values[new])
            return values

        return wait


def _all_new(codes: NDArray[np.int64]) -> tuple[NDArray[np.float32], slice]:
    """As `_Values.look_up` where nothing is known."""
    return np.empty(len(codes), np.float32), slice(None)


class _Values:
    """Values by hashes of 63 bits; among eight million, two have equal hashes with a probability of 4e-6."""

    def __init__(self, max_ngrams: int) -> None:
        self._max_ngrams, self._size = max_ngrams, 0
        self._codes, self._values = _room(FIRST_ROOM)
        self._aside: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        self._n_aside = 0

    def look_up(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """See `_look_up`."""
        self._make_room(self._n_aside)
        for some_codes, some_values in self._aside:
            self._size += _enter(some_codes, some_values, self._codes, self._values)
        self._aside, self._n_aside = [], 0
        values, new = _look_up(codes, self._codes, self._values)
        return values, new

    def enter(self, codes: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Keep values, aside until the next look-up; if there are too many, these alone."""
        if self._n_aside + len(codes) > self._max_ngrams:
            self._aside, self._n_aside = [], 0
        self._aside.append((codes, values))
        self._n_aside += len(codes)

    def _make_room(self, n_ngrams: int) -> None:
        """Make room for more values; if there would be too many, forget all."""
        if self._size + n_ngrams > self._max_ngrams:
            self._size = 0
            self._codes, self._values = _room(max(FIRST_ROOM, n_ngrams))
        elif 2 * (self._size + n_ngrams) > len(self._codes):
            old = self._codes, self._values
            self._codes, self._values = _room(self._size + n_ngrams)
            _enter(*old, self._codes, self._values)


def _room(n_ngrams: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Slots for hashes, and for the value of each."""
    codes = np.full(n_slots(n_ngrams), FREE, np.int64)
    return codes, np.empty(len(codes), np.float32)


class RememberedScorers:
    """The scorer of each command, its process started at its first use and kept with its values."""

    def __init__(self) -> None:
        self._processes = ScorerProcesses()
        self._remembered: dict[ScorerProcess, RememberedScorer] = {}

    def of(self, command: tuple[str, ...]) -> NgramScorer:
        """The scorer of a command.

        Raises:
            ToolError: see `ScorerProcess`.
        """
        process = self._processes.of(command)
        if process not in self._remembered:
            self._remembered[process] = RememberedScorer(process)
        return self._remembered[process]

    def end(self) -> None:
        """End the processes and forget; later calls start new ones."""
        self._remembered.clear()
        self._processes.end()


def _place_codes(source: bytes) -> NDArray[np.int64]:
    """A number for each place of a sentence, other ones for another sentence."""
    first = np.frombuffer(blake2b(source, digest_size=8).digest(), np.uint64)
    places = np.arange(n_places([source]), dtype=np.uint64)
    return (first + places * GOLDEN).view(np.int64)


@njit(cache=True)
def _codes_of(ngrams: Any, places: Any) -> Any:
    """A hash of at least 0 for each n-gram, (n, width) -> (n,); `places` has the numbers of source places."""
    codes = np.empty(len(ngrams), np.int64)
    n_before = int(len(places) > 0)
    for i in range(len(ngrams)):
        code = hash_number(1)
        if n_before:
            code = hash_next(code, places[ngrams[i, 0]])
        for j in range(n_before, ngrams.shape[1]):
            code = hash_next(code, ngrams[i, j])
        codes[i] = np.int64((code ^ (code >> np.uint64(32))) & CODE_BITS)
    return codes


@njit(cache=True)
def _look_up(codes: Any, known: Any, of_known: Any) -> tuple[Any, Any]:
    """The values of hashes, (n,), and the numbers of those that are not known."""
    values, new = np.empty(len(codes), np.float32), np.empty(len(codes), np.int64)
    found = np.empty(len(codes), np.int64)
    # A loop without conditions, so that the slots come from memory side by side.
    for i in range(len(codes)):
        slot = slot_of(hash_number(codes[i]), len(known))
        found[i], values[i] = known[slot], of_known[slot]
    n_new = 0
    for i in range(len(codes)):
        if found[i] != codes[i]:
            slot = find_key(known, codes[i])
            values[i], new[n_new] = of_known[slot], i
            n_new += known[slot] == FREE
    return values, new[:n_new]


@njit(cache=True)
def _enter(codes: Any, values: Any, known: Any, of_known: Any) -> int:
    """Enter values by their hashes, which may be a table's with free slots; return the number of new ones."""
    n_new = 0
    for i in range(len(codes)):
        if codes[i] == FREE:
            continue
        slot = find_key(known, codes[i])
        n_new += known[slot] == FREE
        known[slot], of_known[slot] = codes[i], values[i]
    return n_new
