"""A metric by a command: one number for each hypothesis, such as COMET's, whose mean is tuned for.

The command reads files with one line for each hypothesis, and writes a number for each; or it stays open, and
answers lines. Each distinct hypothesis of a sentence is asked for once; a file may keep the numbers.
"""

from __future__ import annotations

import hashlib
import shlex
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.number_program import NumberProgram, WrongAnswer
from moses_bridge.base.programs import run_program
from moses_bridge.base.progress import unless_full
from moses_bridge.base.textio import read_lines, temporary_directory, write_lines
from moses_bridge.formats.nbest import SEPARATOR, escape_bars, finite_number
from tuning.metrics.metric import Counts, Metric, MetricReferences, Values

SPREAD = 0.1  # of the qualities: PRO draws pairs that differ by half a standard deviation


class ColumnMetric(Metric):
    """The mean of a number by sentence; more is better."""

    def value(self, sums: Counts) -> Values:
        """The mean of summed statistics, *Shape:* (..., 2) -> (...)."""
        return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1), np.float64)

    def quality(self, statistics: Counts) -> Values:
        """The number of each hypothesis, with a standard deviation of a tenth over all of them."""
        return np.asarray(SPREAD * self.gains(statistics))

    def gains(self, statistics: Counts) -> Values:
        """The number of each hypothesis in standard deviations, since its scale is not known."""
        numbers = np.asarray(statistics[:, 0], np.float64)
        return np.asarray((numbers - numbers.mean()) / max(float(numbers.std()), 1e-12))


COLUMN = ColumnMetric("column", "column", 1)


class ColumnReferences(MetricReferences):
    """References for a metric by a command; see `MetricReferences`.

    Args:
        sentences: for each sentence its references; the command gets the first one.
        sources: the source of each sentence.
        command: the command, as of `NumberCommand`.
        cache: file that keeps the numbers; None keeps them in memory alone.

    Raises:
        ConfigError: the command is malformed.
        InputError: the cache is malformed.
    """

    metric = COLUMN

    def __init__(
        self,
        sentences: Sequence[Sequence[bytes]],
        sources: Sequence[bytes],
        command: str,
        cache: Path | None = None,
    ) -> None:
        super().__init__(sentences)
        self._sources = sources
        self._command = NumberCommand(command, "the metric's command", cache=cache)

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.float64]:
        """Statistics of hypotheses, the number and 1: *Shape:* (n, 2).

        Raises:
            ToolError: the command failed.
            InputError: it wrote something else than a finite number for each hypothesis.
        """
        questions = [
            Question(self._sources[i], self.sentences[i][0], words) for i, words in hypotheses
        ]
        rows = [(number, 1.0) for number in self._command.numbers(questions)]
        return np.array(rows).reshape(-1, 2)


PLACES = ("source", "reference", "hypotheses", "out")


class Question(NamedTuple):
    """A hypothesis to be scored."""

    source: bytes
    reference: bytes
    hypothesis: bytes


class NumberCommand:
    """A command with its answers so far.

    Args:
        command: the command, with {hypotheses}, {source}, {reference} and {out} in the place of paths; without
            any of them a program that stays open, of `moses_bridge.base.number_program`, which is asked
            `source ||| reference ||| hypothesis`.
        what: the command in words, for messages.
        needed: placeholders required besides {hypotheses} and {out}.
        cache: file that keeps the numbers; None keeps them in memory alone.

    Raises:
        ConfigError: the command is malformed.
        InputError: the cache is malformed.
    """

    def __init__(
        self, command: str, what: str, needed: Sequence[str] = (), cache: Path | None = None
    ) -> None:
        self._command = command
        self._what = what
        self._cache = cache
        self._numbers: dict[str, float] = {}
        self._is_open = not any(f"{{{name}}}" in command for name in PLACES)
        self._program: NumberProgram | None = None
        for name in () if self._is_open else ("hypotheses", "out", *needed):
            if f"{{{name}}}" not in command:
                raise ConfigError(f"{what} has no {{{name}}}: {command!r}")
        try:
            if not self._words(dict.fromkeys(PLACES, "")):
                raise ValueError("no program")
        except (LookupError, AttributeError, ValueError) as error:
            hint = "Write {{ and }} for braces that name no file"
            raise ConfigError(f"{what}: found {command!r} ({error}). {hint}") from error
        if cache is not None and cache.exists():
            self._numbers = dict(_cached(cache))

    def _words(self, paths: Mapping[str, str]) -> list[str]:
        """The command and its arguments for these paths."""
        return [word.format(**paths) for word in shlex.split(self._command)]

    def numbers(self, questions: Sequence[Question]) -> list[float]:
        """The number of each hypothesis; only new questions are passed to the command.

        Raises:
            ToolError: the command failed.
            InputError: it wrote something else than a finite number for each hypothesis.
        """
        keys = [self._key(question) for question in questions]
        new = {
            key: question
            for key, question in zip(keys, questions, strict=True)
            if key not in self._numbers
        }
        if new:
            self._numbers.update(zip(new, self.ask([*new.values()]), strict=True))
            if self._cache is not None:
                pairs = (f"{key} {number!r}" for key, number in self._numbers.items())
                lines = [f"{pair} {_check(pair.encode())}".encode() for pair in pairs]
                with unless_full(self._cache, "the numbers are not kept"):
                    write_lines(self._cache, lines)
        return [self._numbers[key] for key in keys]

    def ask(self, questions: Sequence[Question]) -> list[float]:
        """The command's answer for each hypothesis, without keeping it. Errors are those of `numbers`."""
        if self._is_open:
            return self._answers(questions)
        with temporary_directory("metric") as folder:
            paths = {name: str(folder / name) for name in PLACES}
            for name, column in zip(PLACES, zip(*questions, strict=True), strict=False):
                write_lines(paths[name], [*column])
            run_program(self._words(paths))
            return self._read(Path(paths["out"]), len(questions))

    def _answers(self, questions: Sequence[Question]) -> list[float]:
        """The answers of the open program, which is started for the first ones."""
        if self._program is None:
            self._program = NumberProgram(self._words({}))
            weakref.finalize(self, self._program.program.close)
        rows = [SEPARATOR.join(map(escape_bars, each)) for each in questions]
        try:
            return self._program.numbers(rows)
        except WrongAnswer as error:
            what, expected = f"the answers of {self._what}", error.expected or "a finite number"
            place = error.place + 1
            raise InputError(what, place, error.found, expected, error.hint) from error

    def _key(self, question: Question) -> str:
        return hashlib.sha256(b"\n".join((self._command.encode(), *question))).hexdigest()

    def _read(self, path: Path, n_expected: int) -> list[float]:
        what = f"the numbers of {self._what}"
        lines = list(read_lines(path)) if path.exists() else []
        if len(lines) != n_expected:
            raise InputError(what, None, f"{len(lines)} lines", f"{n_expected}, one a hypothesis")
        return [finite_number(line, what, place) for place, line in enumerate(lines, start=1)]


def _cached(path: Path) -> Iterable[tuple[str, float]]:
    for line_number, line in enumerate(read_lines(path), start=1):
        pair, _, check = line.rpartition(b" ")
        if line_number == 1:
            has_checks = b" " in pair  # earlier versions wrote none
        if has_checks and check.decode("ascii", "replace") != _check(pair):
            hint = "Remove this line, or the file"
            raise InputError(path, line_number, "another line than was written", "its number", hint)
        key, _, number = (pair if has_checks else line).partition(b" ")
        yield key.decode("ascii", "replace"), finite_number(number, path, line_number)


def _check(pair: bytes) -> str:
    """The check of a key and its number: a disk may have changed them."""
    return hashlib.sha256(pair).hexdigest()[:16]
