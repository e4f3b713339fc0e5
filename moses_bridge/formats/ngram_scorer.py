"""Neural models for the search: the interface of a scorer, and a scorer in a process of its own.

The process is any command speaking this protocol on its standard input and output (numbers are
little-endian). It first prints a line, "ngram-scorer 2 ORDER START END OPEN SOURCE": the number of words of an
n-gram, the word numbers filling the places before a sentence, of the end of a sentence, and of an unknown
previous word (-1 if it has none), and 1 if it sees the source, else 0. Then it answers requests, each one
letter, a uint32 with the number of bytes that follow, and those bytes:

    W  words, joined by newlines           an int32 for each word, its number; the same in each
                                           process of the command
    S  source sentences, each ended by a   an int32, the number of their places: all words, and after
       newline, their words between blanks each sentence its end, are counted from 0
    N  int32 numbers, ORDER an n-gram,     a float32 for each n-gram, natural log p(last word |
       oldest word first; if SOURCE is 1,  words before it, source around the place)
       a place of the last S before them
    E  the same numbers                    the same, but quick rather than exact: used by the
                                           search

It ends when its input does. "ngram-scorer 1 ORDER START END" is the same without OPEN, SOURCE and S.
`serve_ngrams` is the other side, for any scorer written in Python.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import struct
import sysconfig
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, ToolError, UserError, shown
from moses_bridge.base.programs import InteractiveProgram
from moses_bridge.base.progress import print_note
from moses_bridge.formats.nbest import check_feature_name
from moses_bridge.formats.words import split_words

GREETING = b"ngram-scorer"
N_NUMBERS = {b"1": 3, b"2": 5}  # in the greeting, by version
INT32 = re.compile(rb"-?\d{1,9}")
LONGEST_NGRAM = 999  # words
NOTE_SECONDS = 10.0  # without an answer, until the user is told
WORDS, SOURCES, NGRAMS, ESTIMATES = b"W", b"S", b"N", b"E"
SIZE = struct.Struct("<I")
NO_ID = -1
Answer = Callable[[], NDArray[np.float32]]  # waits for values
# Arguments of `rescorer` in the plan of an experiment: it reads models, and writes {out} alone.
MODEL = r"[\w./+@][\w./+@-]*"
OWN_COMMANDS = re.compile(
    rf"serve {MODEL}( --unnormalized)?|nbest '{{nbest}}' --source '{{source}}'( --model {MODEL})+"
    r" --feature \w+ --out '{out}'( --precision bfloat16)?"
)


class NgramScorer(Protocol):
    """A model seeing a fixed number of previous words and perhaps the source around a place."""

    @property
    def order(self) -> int:
        """Number of words of an n-gram, including the scored one."""

    @property
    def start_id(self) -> int:
        """The number filling the places before the first word of a sentence."""

    @property
    def end_id(self) -> int:
        """The number of the end of a sentence."""

    @property
    def open_id(self) -> int:
        """The number of an unknown previous word; NO_ID if there is none."""

    @property
    def reads_source(self) -> bool:
        """Whether it sees the source; then each n-gram follows a source place."""

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """The model's number of each target word, *Shape:* (n_words,)."""

    def read(self, sources: Sequence[bytes]) -> int:
        """Take the source sentences of the following n-grams, even if it does not see them; count their places.

        Places are counted from 0 through all sentences: all words, and the end of each sentence after its
        words.
        """

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """Natural log p(last word | words before it, source around the place), *Shape:* (n,).

        An n-gram has numbers of words, oldest first, after the source place if `reads_source`, *Shape:* (n,
        row_width).
        """

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """As `log_probs`, but quick rather than exact; used by the search."""


def begin_estimates(scorer: NgramScorer, ngrams: NDArray[np.int32]) -> Answer:
    """Start the estimates of a scorer able to; any other starts when waited for."""
    if isinstance(scorer, BeginsEstimates):
        return scorer.begin_estimates(ngrams)
    return partial(scorer.estimates, ngrams)


def row_width(scorer: NgramScorer) -> int:
    """Numbers in the request for one value: an n-gram, after a source place if the scorer sees it."""
    return scorer.order + int(scorer.reads_source)


@runtime_checkable
class BeginsEstimates(Protocol):
    """A scorer computing in the background."""

    def begin_estimates(self, ngrams: NDArray[np.int32]) -> Answer:
        """Request estimates and return a function waiting for them; call it before the next request."""


class NoScorer:
    """An `NgramScorer` giving all words and n-grams the value 0."""

    order, start_id, end_id, open_id = 2, 0, 0, 0

    def __init__(self, reads_source: bool = False) -> None:
        self.reads_source = reads_source

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`."""
        return np.zeros(len(words), np.int32)

    def read(self, sources: Sequence[bytes]) -> int:
        """See `NgramScorer`."""
        return n_places(sources)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return np.zeros(len(ngrams), np.float32)

    estimates = log_probs


def n_places(sources: Sequence[bytes]) -> int:
    """Count the words of some sentences and their ends."""
    return sum(len(split_words(source)) + 1 for source in sources)


@dataclass(frozen=True)
class NeuralLm:
    """A neural model as a feature of the search.

    Attributes:
        name: name of the feature and its weight; see `check_feature_name`.
        command: the program and its arguments, speaking the protocol of this module.
    """

    name: str
    command: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> NeuralLm:
        """Parse NAME=COMMAND; ConfigError if the name or the command is missing or malformed."""
        name, _, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise ConfigError(f"found {text!r}, expected NAME=COMMAND: {error}") from error
        if not words:
            raise ConfigError(f"found {text!r}, expected NAME=COMMAND")
        check_feature_name(name)
        return cls(name, words)


def as_texts(neural_lm: Sequence[str] | str | None) -> tuple[str, ...]:
    """Neural models of settings, each NAME=COMMAND, as a tuple: several, a single one, or none."""
    return (neural_lm,) if isinstance(neural_lm, str) else (*(neural_lm or ()),)


def is_own_command(command: str) -> bool:
    """Whether a command only reads a model with this installation's `rescorer`, and so needs no permission."""
    program, *arguments = shlex.split(command)
    own = Path(sysconfig.get_path("scripts"), "rescorer")
    return Path(program).absolute() == own and bool(OWN_COMMANDS.fullmatch(shlex.join(arguments)))


class LostScorer(Exception):
    """A failure of a scorer noticed by a process that did not start it, and so cannot get its exit status."""

    def __init__(self, pid: int, what: str) -> None:
        super().__init__(pid, what)
        self.pid, self.what = pid, what


class ScorerProcess(contextlib.AbstractContextManager["ScorerProcess", None]):
    """An `NgramScorer` in its own process, from `with` to the end of the block.

    Processes forked meanwhile may use it, one at a time; they raise `LostScorer` if it fails.

    Raises:
        ToolError: it cannot be started, ends too early, or answers nonsense.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._started_by = os.getpid()
        self._program = InteractiveProgram(command)
        self.pid = self._program.pid
        self._ready = select.poll()
        self._ready.register(self._program.output, select.POLLIN)
        try:
            self.order, self.start_id, self.end_id, self.open_id, source = self._greeting()
            self.reads_source = bool(source)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._program.close()

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`."""
        if not words:
            return np.zeros(0, np.int32)
        return np.frombuffer(self._ask(WORDS, b"\n".join(words), 4 * len(words)), "<i4")

    def read(self, sources: Sequence[bytes]) -> int:
        """See `NgramScorer`; ToolError if the command counts the places differently."""
        if not self.reads_source:
            return n_places(sources)
        payload = b"".join(source + b"\n" for source in sources)
        found = int(np.frombuffer(self._ask(SOURCES, payload, 4), "<i4")[0])
        if found != n_places(sources):
            raise self._lost_or_failed(f"found {found} source places, expected {n_places(sources)}")
        return found

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self._begin(NGRAMS, ngrams)()

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self.begin_estimates(ngrams)()

    def begin_estimates(self, ngrams: NDArray[np.int32]) -> Answer:
        """See `BeginsEstimates`."""
        return self._begin(ESTIMATES, ngrams)

    def _begin(self, kind: bytes, ngrams: NDArray[np.int32]) -> Answer:
        if not len(ngrams):
            return lambda: np.zeros(0, np.float32)
        self._send(kind, ngrams.astype("<i4", copy=False).tobytes())
        return lambda: np.frombuffer(self._receive(4 * len(ngrams)), "<f4")

    def _greeting(self) -> tuple[int, ...]:
        self._wait("greeting")
        line = self._program.output.readline(200)
        name, _, rest = line.partition(b" ")
        version, *numbers = rest.split() or [b""]
        fits = len(numbers) == N_NUMBERS.get(version) and all(map(INT32.fullmatch, numbers))
        if name != GREETING or not fits:
            raise self._lost_or_failed(
                f"found {line!r}, expected a line {GREETING.decode()} 2 ORDER START END OPEN SOURCE"
            )
        found = [int(number) for number in numbers]
        if not 1 <= found[0] <= LONGEST_NGRAM:
            raise self._lost_or_failed(
                f"found the ORDER {found[0]} in {line!r}, expected the words of an n-gram, "
                f"1 to {LONGEST_NGRAM}"
            )
        return (*found, NO_ID, 0) if version == b"1" else (*found,)

    def _ask(self, kind: bytes, payload: bytes, n_bytes: int) -> bytes:
        self._send(kind, payload)
        return self._receive(n_bytes)

    def _send(self, kind: bytes, payload: bytes) -> None:
        try:
            self._program.input.write(kind + SIZE.pack(len(payload)) + payload)
            self._program.input.flush()
        except OSError as error:
            raise self._lost_or_failed(str(error)) from error

    def _wait(self, what: str) -> None:
        """Wait for the command's next bytes, and tell the user if that takes long."""
        if not self._ready.poll(1000 * NOTE_SECONDS):
            command = shlex.join(self._program.command)
            print_note(
                f"{command}: no {what} for {NOTE_SECONDS:.0f} s; a scorer must answer each request "
                "and flush its output"
            )

    def _receive(self, n_bytes: int) -> bytes:
        self._wait("answer")
        answer = self._program.output.read(n_bytes)
        if len(answer) < n_bytes:
            raise self._lost_or_failed("the answer breaks off")
        return answer

    def failure(self, what: str) -> ToolError:
        """End the process; return its own error message, or `what`, as an error."""
        status = self._program.end()
        told = self._program.messages()
        if status == 0:  # then what it wrote need not be about a fault
            told = f"{what}. {told}"
        return ToolError(self._program.command, status, told or what)

    def _lost_or_failed(self, what: str) -> ToolError | LostScorer:
        return self.failure(what) if os.getpid() == self._started_by else LostScorer(self.pid, what)

    def close_input(self) -> None:
        """Let the process end; it cannot be used any more."""
        self._program.close_input()


class ScorerProcesses(contextlib.AbstractContextManager["ScorerProcesses", None]):
    """Processes of scorers, each started at its first use and kept until the end of the block."""

    def __init__(self) -> None:
        self._started: dict[tuple[tuple[str, ...], int], ScorerProcess] = {}

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, commands: Sequence[tuple[str, ...]], n_processes: int) -> None:
        """Start processes of each command, all at once; errors as of `ScorerProcess`."""
        distinct = dict.fromkeys(commands)  # two features may use one command
        wanted = [(command, number) for command in distinct for number in range(n_processes)]
        with ThreadPoolExecutor(max(1, len(wanted))) as threads:
            started = [threads.submit(self.of, *one) for one in wanted]
        for one in started:
            one.result()

    def of(self, command: tuple[str, ...], number: int = 0) -> ScorerProcess:
        """The process of a command with this number; errors as of `ScorerProcess`."""
        if (command, number) not in self._started:
            self._started[command, number] = ScorerProcess(command)
        return self._started[command, number]

    def failure(self, lost: LostScorer) -> ToolError:
        """The failure of one of these processes noticed by another process, with its exit status."""
        (process,) = [each for each in self._started.values() if each.pid == lost.pid]
        return process.failure(lost.what)

    def end(self) -> None:
        """End the processes, all at once; later calls start new ones."""
        with contextlib.ExitStack() as stack:
            while self._started:
                stack.enter_context(self._started.popitem()[1]).close_input()


def serve_ngrams(scorer: NgramScorer, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer the requests on a blocking stream by the protocol of this module, until they end.

    Raises:
        UserError: a request is malformed or cut; it gets no answer.
    """
    numbers = (scorer.order, scorer.start_id, scorer.end_id, scorer.open_id, scorer.reads_source)
    answers.write(b"%b 2 %d %d %d %d %d\n" % (GREETING, *numbers))
    answers.flush()
    while kind := requests.read(1):
        if kind not in (WORDS, SOURCES, NGRAMS, ESTIMATES):
            raise UserError(f"found a request {shown(kind)}, expected one of W, S, N and E")
        (size,) = SIZE.unpack(_read(requests, kind, SIZE.size))
        answers.write(_answer(scorer, kind, _read(requests, kind, size)))
        answers.flush()


def _read(requests: IO[bytes], kind: bytes, n_bytes: int) -> bytes:
    found = requests.read(n_bytes)
    if len(found) < n_bytes:
        raise UserError(
            f"found a request {kind.decode()} that breaks off after {len(found)} bytes, "
            f"expected {n_bytes}"
        )
    return found


def _answer(scorer: NgramScorer, kind: bytes, payload: bytes) -> bytes:
    if kind == WORDS:
        return scorer.encode(payload.split(b"\n")).astype("<i4").tobytes()
    if kind == SOURCES:
        *sources, rest = payload.split(b"\n")
        if rest:
            raise UserError(
                f"found the end of a request S after {shown(rest)}, expected a newline after each sentence"
            )
        return np.array([scorer.read(sources)], "<i4").tobytes()
    width = row_width(scorer)
    if len(payload) % (4 * width):
        raise UserError(
            f"found a request {kind.decode()} of {len(payload)} bytes, expected {width} int32 an n-gram, "
            f"{4 * width} bytes each"
        )
    ngrams = np.frombuffer(payload, "<i4").reshape(-1, width)
    compute = scorer.log_probs if kind == NGRAMS else scorer.estimates
    return compute(ngrams).astype("<f4").tobytes()
