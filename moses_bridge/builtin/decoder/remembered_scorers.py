"""Values of neural models kept from one text to the next.

A tuning translates the same text again and again, and its last decodings ask for hardly an n-gram that an
earlier one did not ask for. `NgramMemo` holds what a few sentences ask for, in a table that fits the cache of
the processor; what is new to it is looked up here before the model computes it. What a text asks for is put
aside, and entered into the table before the next text. While all sentences are read for the first time nothing
is looked up, so a text that is translated once costs no table: to a model that sees the source all of its
n-grams are new, and of those that another one is asked for, so few are known that looking for them takes
longer than computing them.

Several processes may translate a text. Each has a process of the model to itself, and the table as it was
before the text; what it puts aside goes back to the process that forked it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ToolError, UserError, shown
from moses_bridge.compiled.hash_table import (
    FREE,
    GOLDEN,
    find_key,
    hash_next,
    hash_number,
    n_slots,
    slot_of,
)
from moses_bridge.compiled.kept_code import compiled
from moses_bridge.formats.ngram_scorer import (
    Answer,
    LostScorer,
    NgramScorer,
    ScorerProcesses,
    begin_estimates,
    n_places,
)

MAX_NGRAMS = 1 << 24  # 400 MB; a tuning on 1,000 sentences has six million
FIRST_ROOM = 1 << 14
CODE_BITS = np.uint64(2**63 - 1)
Command = tuple[str, ...]


class RememberedScorer:
    """An `NgramScorer` that computes no value again that an earlier text asked for.

    A value is one of an n-gram, and of a place of a sentence if the model sees those.

    Args:
        scorer: a process of the model; a value must depend on nothing else.
        known: what is known of the model.
        number: of the process.
    """

    def __init__(self, scorer: NgramScorer, known: KnownValues, number: int = 0) -> None:
        self.order, self.start_id, self.end_id = scorer.order, scorer.start_id, scorer.end_id
        self.open_id, self.reads_source = scorer.open_id, scorer.reads_source
        self._scorer, self._known = scorer, known
        self._word_ids = known.word_ids.setdefault(number, {})
        self._places = np.zeros(0, np.int64)
        self._are_new = False

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`.

        Raises:
            UserError: the model numbers words otherwise than in its first process.
        """
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
        self._known.new_sentences |= sentences
        if self.reads_source:
            self._places = np.concatenate([np.zeros(0, np.int64), *codes])
        return self._scorer.read(sources)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        begin = partial(partial, self._scorer.log_probs)
        return self._begin(begin, ngrams, self._known.log_probs)()

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self.begin_estimates(ngrams)()

    def begin_estimates(self, ngrams: NDArray[np.int32]) -> Answer:
        """See `BeginsEstimates`."""
        return self._begin(partial(begin_estimates, self._scorer), ngrams, self._known.estimates)

    def _begin(
        self,
        begin: Callable[[NDArray[np.int32]], Answer],
        ngrams: NDArray[np.int32],
        known: ValueTable,
    ) -> Answer:
        codes = _codes_of(ngrams, self._places)
        values, new = _all_new(codes) if self._are_new else known.look_up(codes)
        new_codes = codes[new]
        if not len(new_codes):
            return lambda: values
        answer = begin(ngrams[new])

        def wait() -> NDArray[np.float32]:
            values[new] = answer()
            known.put_aside(new_codes, values[new])
            return values

        return wait


def _all_new(codes: NDArray[np.int64]) -> tuple[NDArray[np.float32], slice]:
    """As `ValueTable.look_up` where nothing is known."""
    return np.empty(len(codes), np.float32), slice(None)


class Values(NamedTuple):
    """Values by hashes of n-grams, *Shape:* (n,) each."""

    codes: NDArray[np.int64]
    values: NDArray[np.float32]


class ValueTable:
    """Values by hashes of 63 bits; among 16 million, two have equal hashes with a probability of 2e-5.

    Args:
        max_ngrams: the largest number of values; those that come later are not kept, so a tuning on a long
            text goes on finding what it has.
    """

    def __init__(self, max_ngrams: int) -> None:
        self._max_ngrams, self._size = max_ngrams, 0
        self._entered = _room(FIRST_ROOM)
        self._aside: list[Values] = []
        self._n_aside = 0

    def look_up(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Look among the entered values; see `_look_up`."""
        values, new = _look_up(codes, *self._entered)
        return values, new

    def put_aside(self, codes: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Keep values to be entered, if there is room for them."""
        if self._size + self._n_aside + len(codes) <= self._max_ngrams:
            self._aside.append(Values(codes, values))
            self._n_aside += len(codes)

    def take_aside(self) -> Values:
        """The values that were put aside, which are forgotten here."""
        none = Values(np.empty(0, np.int64), np.empty(0, np.float32))
        codes, values = zip(none, *self._aside, strict=True)
        self._aside, self._n_aside = [], 0
        return Values(np.concatenate(codes), np.concatenate(values))

    def enter(self) -> None:
        """Enter what was put aside."""
        more = self.take_aside()
        n_ngrams = self._size + len(more.codes)
        if 2 * n_ngrams > len(self._entered.codes):
            old = self._entered
            self._entered = _room(n_ngrams)
            _enter(*old, *self._entered)
        self._size += _enter(*more, *self._entered)


def _room(n_ngrams: int) -> Values:
    """Free slots."""
    codes = np.full(n_slots(n_ngrams), FREE, np.int64)
    return Values(codes, np.empty(len(codes), np.float32))


class News(NamedTuple):
    """What a text adds to `KnownValues`: numbers of its sentences, and values."""

    sentences: set[int]
    log_probs: Values
    estimates: Values


class KnownValues:
    """What is known of a model.

    Args:
        max_ngrams: how many exact values, and how many estimates, are kept; see `ValueTable`.

    Attributes:
        word_ids: the model's numbers of target words, by the number of the process asked.
        sentences: a number for each sentence of earlier texts.
        new_sentences: the same for the text that is being translated.
        log_probs: exact values.
        estimates: estimates.
    """

    def __init__(self, max_ngrams: int = MAX_NGRAMS) -> None:
        self.word_ids: dict[int, dict[bytes, int]] = {}
        self.sentences: set[int] = set()
        self.new_sentences: set[int] = set()
        self.log_probs, self.estimates = ValueTable(max_ngrams), ValueTable(max_ngrams)

    def enter(self) -> None:
        """Enter what was put aside: from now on it is of an earlier text."""
        self.sentences |= self.new_sentences
        self.new_sentences = set()
        self.log_probs.enter()
        self.estimates.enter()

    def take_news(self) -> News:
        """What was put aside, which is forgotten here."""
        sentences, self.new_sentences = self.new_sentences, set()
        return News(sentences, self.log_probs.take_aside(), self.estimates.take_aside())

    def put_aside(self, news: News) -> None:
        """Keep what another process took."""
        self.new_sentences |= news.sentences
        self.log_probs.put_aside(*news.log_probs)
        self.estimates.put_aside(*news.estimates)


class RememberedScorers:
    """The scorers of commands: their processes, started at their first use and kept, and what is known."""

    def __init__(self) -> None:
        self._processes = ScorerProcesses()
        self._known: dict[Command, KnownValues] = {}

    def start(self, commands: Sequence[Command], n_processes: int) -> None:
        """Start processes of each command, all at once.

        Raises:
            ToolError: see `ScorerProcess`.
        """
        self._processes.start(commands, n_processes)

    def of(self, command: Command, number: int = 0) -> NgramScorer:
        """The scorer of a command for the next text; what it was asked for earlier is known.

        Args:
            command: the command.
            number: of its process.

        Raises:
            ToolError: see `ScorerProcess`.
        """
        scorer = self._processes.of(command, number)
        known = self._known.setdefault(command, KnownValues())
        known.enter()
        return RememberedScorer(scorer, known, number)

    def take_news(self) -> dict[Command, News]:
        """What the text has added in this process until now; it is forgotten here."""
        return {command: known.take_news() for command, known in self._known.items()}

    def put_aside(self, news: Mapping[Command, News]) -> None:
        """Keep what was added in another process for the next text."""
        for command, of_command in news.items():
            self._known[command].put_aside(of_command)

    def failure(self, lost: LostScorer) -> ToolError:
        """The failure that another process noticed; see `ScorerProcesses`."""
        return self._processes.failure(lost)

    def end(self) -> None:
        """End the processes and forget; later calls start new ones."""
        self._known.clear()
        self._processes.end()


def _place_codes(source: bytes) -> NDArray[np.int64]:
    """A number for each place of a sentence, other ones for another sentence."""
    first = np.frombuffer(blake2b(source, digest_size=8).digest(), np.uint64)
    places = np.arange(n_places([source]), dtype=np.uint64)
    return (first + places * GOLDEN).view(np.int64)


@compiled
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


@compiled
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


@compiled
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
