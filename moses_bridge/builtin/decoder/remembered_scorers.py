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
from moses_bridge.builtin.decoder.ngram_memo import (
    NgramTable,
    enter_numbers,
    free_table,
    ngram_code,
)
from moses_bridge.compiled.hash_table import FREE, GOLDEN, find_key, hash_next, hash_number, slot_of
from moses_bridge.compiled.kept_code import compiled
from moses_bridge.formats.ngram_scorer import (
    Answer,
    LostScorer,
    NgramScorer,
    ScorerProcesses,
    begin_estimates,
    n_places,
)

MAX_NGRAMS = 1 << 25  # 800 MB; a tuning on 1,000 sentences has six million
FIRST_ROOM = 1 << 14
EXACT, ESTIMATE = 1, 2  # kinds of values
Command = tuple[str, ...]
NO_CODES, NO_VALUES = np.empty(0, np.int64), np.empty(0, np.float32)


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
        self._known.put_aside(News(sentences))
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
            self._known.put_aside(News(set(), new_codes, values[new]))
            return values

        return wait


class News(NamedTuple):
    """What a text adds to `KnownValues`.

    Attributes:
        sentences: a number for each of its sentences.
        codes: (n,) hashes of n-grams.
        values: (n,) their values.
    """

    sentences: set[int]
    codes: NDArray[np.int64] = NO_CODES
    values: NDArray[np.float32] = NO_VALUES


class KnownValues:
    """What is known of a model: sentences of earlier texts, and exact values and estimates of their n-grams.

    Among 32 million values, two have equal hashes with a probability of 6e-5.

    Args:
        max_ngrams: the largest number of values; those that come later are not kept, so a tuning on a long
            text goes on finding what it has.

    Attributes:
        word_ids: the model's numbers of target words, by the number of the process asked.
        sentences: a number for each sentence of earlier texts.
    """

    def __init__(self, max_ngrams: int = MAX_NGRAMS) -> None:
        self.word_ids: dict[int, dict[bytes, int]] = {}
        self.sentences: set[int] = set()
        self._max_ngrams, self._size = max_ngrams, 0
        self._table = free_table(FIRST_ROOM)
        self._aside: list[News] = []

    def look_up(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The values of hashes that earlier texts had, (n,), and the places of all others."""
        numbers, new = _look_up(codes, self._table)
        return numbers.view(np.float32), new

    def put_aside(self, news: News) -> None:
        """Keep what the present text adds, its values only if there is room for them."""
        if self._size + len(news.codes) > self._max_ngrams:
            news = News(news.sentences)
        self._size += len(news.codes)
        self._aside.append(news)

    def take_news(self) -> News:
        """What was put aside, which is forgotten here."""
        news, self._aside = self._aside, []
        self._size -= sum(len(each.codes) for each in news)
        return News(
            set[int]().union(*(each.sentences for each in news)),
            np.concatenate([NO_CODES, *(each.codes for each in news)]),
            np.concatenate([NO_VALUES, *(each.values for each in news)]),
        )

    def enter(self) -> None:
        """Enter what was put aside: from now on it is of an earlier text."""
        sentences, codes, values = self.take_news()
        self.sentences |= sentences
        n_ngrams = self._size + len(codes)
        if 2 * n_ngrams > len(self._table.codes):
            old, self._table = self._table, free_table(n_ngrams)
            enter_numbers(*old, self._table)
        self._size += enter_numbers(codes, values.view(np.int32), self._table)


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
def _codes_of(kind: int, ngrams: Any, places: Any) -> Any:
    """A hash of each n-gram, (n, width) -> (n,); `places` has the numbers of source places."""
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
    """The numbers of hashes, (n,) int32, and the places of those that are not in the table."""
    numbers, new = np.empty(len(codes), np.int32), np.empty(len(codes), np.int64)
    found = np.empty(len(codes), np.int64)
    # A loop without conditions, so that the slots come from memory side by side.
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
