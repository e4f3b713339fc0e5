"""Memory of a neural model's values of n-grams, within a text and from one text to the next.

A tuning translates the same text again and again, and its last decodings request hardly any new n-grams.
`NgramMemo` holds the values for a few sentences, in a table fitting the cache of the processor; n-grams new to
it are looked up in `CachedValues` before the model computes them. The values of a text are queued, and entered
there before the next text. While all sentences are read for the first time nothing is looked up, so a text
translated once costs no table: for a model seeing the source all of its n-grams are new, and for any other so
few are known that looking them up takes longer than computing them.

Several processes may translate a text. Each has its own process of the model, and the table as it was before
the text; its queued values go back to the process it was forked from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import (
    FREE,
    GOLDEN,
    find_key,
    hash_next,
    hash_number,
    n_slots,
    slot_of,
)
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.errors import UserError, shown
from moses_bridge.formats.ngram_scorer import (
    Answer,
    NgramScorer,
    ScorerProcesses,
    begin_estimates,
    n_places,
)

MAX_NGRAMS = 1 << 20  # 30 MB
MOST_KEPT = (
    1 << 25
)  # from one text to the next, 800 MB; a tuning on 1,000 sentences has six million
FIRST_ROOM = 1 << 14
CODE_BITS = np.uint64(2**63 - 1)
EXACT, ESTIMATE = 1, 2  # kinds of values
NO_CODES, NO_VALUES = np.empty(0, np.int64), np.empty(0, np.float32)

Compute = Callable[[NDArray[np.int32]], Answer]
Command = tuple[str, ...]


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
        wait, places = self.ask_entered(len(ngrams), partial(_enter, ngrams))
        return np.asarray(wait()[places])

    def ask_entered(self, n_ngrams: int, enter: Enter) -> tuple[Answer, NDArray[np.int64]]:
        """Begin to compute the values of n-grams in several arrays, entered by `enter_ngrams`.

        n_ngrams is at least their number; `enter` numbers the places of new ones from the known ones on.

        Returns:
            A function waiting for the values of all places, and the place of each n-gram, (n,). Call it before
            the next `ask_entered`; it raises UserError if a value is not finite.
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


class CachedScorer:
    """An `NgramScorer`, process `number` of its model, computing no value again that an earlier text requested.

    A value depends on nothing but an n-gram, and a place of a sentence if the model sees the source.
    """

    def __init__(self, scorer: NgramScorer, known: CachedValues, number: int = 0) -> None:
        self.order, self.start_id, self.end_id = scorer.order, scorer.start_id, scorer.end_id
        self.open_id, self.reads_source = scorer.open_id, scorer.reads_source
        self._scorer, self._known = scorer, known
        self._word_ids = known.word_ids.setdefault(number, {})
        self._places = np.zeros(0, np.int64)
        self._are_new = False

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`; UserError if the model numbers words differently than in its first process."""
        ids, first_ids = self._word_ids, self._known.word_ids.get(0, self._word_ids)
        new = [word for word in dict.fromkeys(words) if word not in ids]
        ids.update(zip(new, self._scorer.encode(new).tolist(), strict=True))
        for word in new:
            if first_ids.get(word, ids[word]) != ids[word]:
                raise UserError(
                    f"two processes of a neural model number the word {shown(word)} {first_ids[word]} and "
                    f"{ids[word]}, expected one number in all; use one job"
                )
        return np.array([ids[word] for word in words], np.int32)

    def read(self, sources: Sequence[bytes]) -> int:
        """See `NgramScorer`."""
        codes = [_place_codes(source) for source in sources]
        sentences = {int(of_sentence[0]) for of_sentence in codes}
        self._are_new = self._known.sentences.isdisjoint(sentences)
        self._known.queue(NewValues(sentences))
        if self.reads_source:
            self._places = np.concatenate([np.zeros(0, np.int64), *codes])
        return self._scorer.read(sources)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self._begin(partial(partial, self._scorer.log_probs), ngrams, EXACT)()

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self.begin_estimates(ngrams)()

    def begin_estimates(self, ngrams: NDArray[np.int32]) -> Answer:
        """See `BeginsEstimates`."""
        return self._begin(partial(begin_estimates, self._scorer), ngrams, ESTIMATE)

    def _begin(
        self, begin: Callable[[NDArray[np.int32]], Answer], ngrams: NDArray[np.int32], kind: int
    ) -> Answer:
        codes = _codes_of(kind, ngrams, self._places)
        values = np.empty(len(codes), np.float32)
        new: slice | NDArray[np.int64] = slice(None)
        if not self._are_new:
            values, new = self._known.look_up(codes)
        new_codes = codes[new]
        if not len(new_codes):
            return lambda: values
        answer = begin(ngrams[new])

        def wait() -> NDArray[np.float32]:
            values[new] = answer()
            self._known.queue(NewValues(set(), new_codes, values[new]))
            return values

        return wait


class NewValues(NamedTuple):
    """The additions of a text to `CachedValues`: numbers of sentences, hashes of n-grams (n,), values (n,)."""

    sentences: set[int]
    codes: NDArray[np.int64] = NO_CODES
    values: NDArray[np.float32] = NO_VALUES


class CachedValues:
    """The known values of a model: exact values and estimates of the n-grams of earlier texts.

    Among 32 million values, two have equal hashes with a probability of 6e-5. Values beyond max_ngrams are not
    kept, so a tuning on a long text goes on finding the first ones.
    """

    def __init__(self, max_ngrams: int = MOST_KEPT) -> None:
        self.word_ids: dict[int, dict[bytes, int]] = {}  # the model's, by number of the process
        self.sentences: set[int] = set()  # a number for each sentence of earlier texts
        self._max_ngrams, self._size = max_ngrams, 0
        self._table = free_table(FIRST_ROOM)
        self._queued: list[NewValues] = []

    def look_up(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The values of known hashes, (n,), and the places of all others."""
        numbers, new = _look_up(codes, self._table)
        return numbers.view(np.float32), new

    def queue(self, news: NewValues) -> None:
        """Queue the additions of the present text, values only if there is room for them."""
        if self._size + len(news.codes) > self._max_ngrams:
            news = NewValues(news.sentences)
        self._size += len(news.codes)
        self._queued.append(news)

    def take_queued(self) -> NewValues:
        """Remove the queued additions, and return them."""
        news, self._queued = self._queued, []
        self._size -= sum(len(each.codes) for each in news)
        return NewValues(
            set[int]().union(*(each.sentences for each in news)),
            np.concatenate([NO_CODES, *(each.codes for each in news)]),
            np.concatenate([NO_VALUES, *(each.values for each in news)]),
        )

    def enter_queued(self) -> None:
        """Enter the queued additions, which belong to an earlier text from now on."""
        sentences, codes, values = self.take_queued()
        self.sentences |= sentences
        n_ngrams = self._size + len(codes)
        if 2 * n_ngrams > len(self._table.codes):
            old, self._table = self._table, free_table(n_ngrams)
            enter_numbers(*old, self._table)
        self._size += enter_numbers(codes, values.view(np.int32), self._table)


class CachedScorers:
    """The scorers of commands: their processes, started at their first use and kept, and the known values."""

    def __init__(self) -> None:
        self.processes = ScorerProcesses()
        self._known: dict[Command, CachedValues] = {}

    def of(self, command: Command, number: int = 0) -> NgramScorer:
        """The scorer of a command for the next text, in process `number`; ToolError as in `ScorerProcess`."""
        scorer = self.processes.of(command, number)
        known = self._known.setdefault(command, CachedValues())
        known.enter_queued()
        return CachedScorer(scorer, known, number)

    def take_queued(self) -> dict[Command, NewValues]:
        """Remove the additions of the text in this process so far, and return them."""
        return {command: known.take_queued() for command, known in self._known.items()}

    def queue(self, news: Mapping[Command, NewValues]) -> None:
        """Queue the additions of another process for the next text."""
        for command, of_command in news.items():
            self._known[command].queue(of_command)

    def end(self) -> None:
        """End the processes and forget the values; later calls start new processes."""
        self._known.clear()
        self.processes.end()


def _place_codes(source: bytes) -> NDArray[np.int64]:
    """A number for each place of a sentence, different for other sentences."""
    first = np.frombuffer(blake2b(source, digest_size=8).digest(), np.uint64)
    places = np.arange(n_places([source]), dtype=np.uint64)
    return (first + places * GOLDEN).view(np.int64)


@compiled
def _codes_of(kind: int, ngrams: Any, places: Any) -> Any:
    """Hash each n-gram, (n, width) -> (n,); `places` has the numbers of source places."""
    codes = np.empty(len(ngrams), np.int64)
    n_before = int(len(places) > 0)
    for i in range(len(ngrams)):
        code = hash_number(kind)
        if n_before:
            code = hash_next(code, places[ngrams[i, 0]])
        codes[i] = ngram_code(code, ngrams[i, n_before:])
    return codes


@compiled
def _look_up(codes: Any, table: NgramTable) -> tuple[Any, Any]:
    """The numbers of hashes, (n,) int32, and the places of those missing in the table."""
    numbers, new = np.empty(len(codes), np.int32), np.empty(len(codes), np.int64)
    found = np.empty(len(codes), np.int64)
    # A loop without conditions, so that several slots are fetched from memory at a time.
    for i in range(len(codes)):
        slot = slot_of(hash_number(codes[i]), len(table.codes))
        found[i], numbers[i] = table.codes[slot], table.numbers[slot]
    n_new = 0
    for i in range(len(codes)):
        if found[i] != codes[i]:
            slot = find_key(table.codes, codes[i])
            numbers[i], new[n_new] = table.numbers[slot], i
            n_new += table.codes[slot] == FREE
    return numbers, new[:n_new]
