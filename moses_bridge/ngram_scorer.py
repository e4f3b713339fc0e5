"""A neural language model for the search: what it must offer, and one that runs in a process of its own.

The process is any command that speaks this protocol on its standard input and output (numbers are
little-endian). It first prints a line, "ngram-scorer 1 ORDER START END": words of an n-gram, the
number that stands before the first word of a sentence, and that of the end of a sentence. Then it
answers requests, each one letter, a uint32 with the number of bytes that follow, and those bytes:

    W  words, joined by newlines           an int32 for each word, its number
    N  int32 numbers, ORDER an n-gram,     a float32 for each n-gram, natural log p(last word |
       oldest word first                   words before it)
    E  the same numbers                    the same, but quick rather than exact: what the search
                                           goes by

It ends when its input does. `serve_ngrams` is the other side, for any scorer written in Python.
"""

from __future__ import annotations

import contextlib
import shlex
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import ConfigError, ToolError
from moses_bridge.formats.nbest import check_feature_name
from moses_bridge.programs import error_tail

GREETING = b"ngram-scorer 1"
WORDS, NGRAMS, ESTIMATES = b"W", b"N", b"E"
SIZE = struct.Struct("<I")
PATIENCE_SECONDS = 10.0  # for a process to end by itself, once its input is closed


class NgramScorer(Protocol):
    """A language model that sees a fixed number of previous words."""

    @property
    def order(self) -> int:
        """Words of an n-gram, the one that is scored included."""

    @property
    def start_id(self) -> int:
        """The number that fills the places before the first word of a sentence."""

    @property
    def end_id(self) -> int:
        """The number of the end of a sentence."""

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """The model's number of each word, *Shape:* (n_words,)."""

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """Natural log p(last word | words before it).

        Args:
            ngrams: numbers of words, oldest first, *Shape:* (n, order).

        Returns:
            *Shape:* (n,).
        """

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """As `log_probs`, but quick rather than exact: what the search goes by."""


class NoScorer:
    """An `NgramScorer` for which all n-grams are alike."""

    order, start_id, end_id = 2, 0, 0

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """0 for each word."""
        return np.zeros(len(words), np.int32)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """0 for each n-gram."""
        return np.zeros(len(ngrams), np.float32)

    estimates = log_probs


@dataclass(frozen=True)
class NeuralLm:
    """A neural language model as a feature of the search.

    Attributes:
        name: of the feature and its weight; see `check_feature_name`.
        command: the program and its arguments; it speaks the protocol of this module.
    """

    name: str
    command: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> NeuralLm:
        """Make one of NAME=COMMAND.

        Raises:
            ConfigError: the name or the command is missing or malformed.
        """
        name, _, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise ConfigError(f"found {text!r}, expected NAME=COMMAND: {error}") from error
        if not words:
            raise ConfigError(f"found {text!r}, expected NAME=COMMAND")
        check_feature_name(name)
        return cls(name, words)


class ScorerProcess:
    """An `NgramScorer` in a process of its own, from `with` to the end of the block.

    Args:
        command: the program and its arguments.

    Raises:
        ToolError: it cannot be started, or ends or answers nonsense before it is told to end.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
            )
        except OSError as error:
            self._stderr.close()
            raise ToolError(command, None, str(error)) from error
        try:
            self.order, self.start_id, self.end_id = self._greeting()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._end()
        self._stderr.close()

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`."""
        if not words:
            return np.zeros(0, np.int32)
        return np.frombuffer(self._ask(WORDS, b"\n".join(words), 4 * len(words)), "<i4")

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self._values(NGRAMS, ngrams)

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self._values(ESTIMATES, ngrams)

    def _values(self, kind: bytes, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        if not len(ngrams):
            return np.zeros(0, np.float32)
        return np.frombuffer(
            self._ask(kind, ngrams.astype("<i4").tobytes(), 4 * len(ngrams)), "<f4"
        )

    def _greeting(self) -> tuple[int, int, int]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline(200)
        numbers = line.removeprefix(GREETING).split()
        if not line.startswith(GREETING) or len(numbers) != 3:
            raise self._failure(f"found {line!r}, expected a line {GREETING.decode()} ...")
        order, start_id, end_id = (int(number) for number in numbers)
        return order, start_id, end_id

    def _ask(self, kind: bytes, payload: bytes, n_bytes: int) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(kind + SIZE.pack(len(payload)) + payload)
            self._process.stdin.flush()
        except OSError as error:
            raise self._failure(str(error)) from error
        answer = self._process.stdout.read(n_bytes)
        if len(answer) < n_bytes:
            raise self._failure("the answer breaks off")
        return answer

    def _failure(self, what: str) -> ToolError:
        self._end()
        told = error_tail(self._stderr).strip()
        return ToolError(self._command, self._process.returncode, told or what)

    def _end(self) -> None:
        """Close its input, which tells it to end, and wait; it is killed if it takes long."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve_ngrams(scorer: NgramScorer, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until they end; see the module's text.

    Args:
        scorer: what answers.
        requests: binary stream that blocks.
        answers: binary stream.
    """
    answers.write(b"%b %d %d %d\n" % (GREETING, scorer.order, scorer.start_id, scorer.end_id))
    answers.flush()
    while kind := requests.read(1):
        payload = requests.read(SIZE.unpack(requests.read(SIZE.size))[0])
        if kind == WORDS:
            answers.write(scorer.encode(payload.split(b"\n")).astype("<i4").tobytes())
        else:
            ngrams = np.frombuffer(payload, "<i4").reshape(-1, scorer.order)
            compute = scorer.log_probs if kind == NGRAMS else scorer.estimates
            answers.write(compute(ngrams).astype("<f4").tobytes())
        answers.flush()
