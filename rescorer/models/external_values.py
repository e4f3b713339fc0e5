"""Values from outside the package: printed by a program, or given by a Python object.

The program is any command that reads phrase pairs on its standard input and prints a number for
each on its standard output. Pairs come in blocks of lines, each block ended by an empty line:

    source ||| target            one pair a line, words between blanks, as they are in the phrase table;
    source ||| target ||| links  with word links (0-0 1-2, source-target, from 0) where requested

It answers each block in the same way: one number a line, as many as the block has pairs and in
their order, and then an empty line, after which it must flush its output. It may answer line by
line or after reading the whole block. A number enters the log-linear model as it is: the natural
logarithm of a probability, or any other finite value to be weighted. The program ends when its
input does. Its standard error is shown if it fails.

A value must not depend on the other pairs of its block. Several blocks may be worked on at a time,
each by its own process: `rescorer score --jobs N` starts the program N times at most.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import threading
import weakref
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, ToolError, UserError, shown
from moses_bridge.base.programs import PATIENCE_SECONDS, InteractiveProgram
from moses_bridge.base.progress import print_note
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.object_reference import ObjectReference
from rescorer.contract.scorer import NamedScorer, Scorer

LONGEST_ANSWER = 1000  # bytes of a line with one number
NOTE_SECONDS = 60.0  # without an answer to a block, until the user is told why that may be
DIGESTED_BYTES = 1 << 24  # of a file, so that a program's large data are not read to know it again
EXPECTED = "one finite number, a natural logarithm"


class UnfitAnswer(UnscorablePair):
    """A pair without a usable value from outside; fault is what was given instead."""

    def __init__(
        self, row: int, batch: Batch, fault: str, hint: str, expected: str = EXPECTED
    ) -> None:
        super().__init__(row, batch, "target", fault, expected, hint)

    @property
    def found(self) -> str:
        """The fault; no side is to blame."""
        return self.fault


def scorer_of_command(command: str, with_links: bool = False) -> NamedScorer:
    """The scorer of a program using the protocol of this module, as a shell starts it.

    Raises:
        ConfigError: the command is malformed.
        ToolError: there is no such program.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--values {command!r}: {error}") from error
    if not words:
        raise ConfigError("--values: found no command, expected a program and its arguments")
    program = shutil.which(words[0])
    if program is None:
        raise ToolError(words, None, "there is no such program")
    files = [program, *(word for word in words[1:] if os.path.isfile(word))]
    links = " with word links" if with_links else ""
    fingerprint = f"{command}{links} {_digest(files)}"
    return NamedScorer(f"values of {command}{links}", CommandScorer(words, with_links), fingerprint)


def scorer_of_factory(place: str) -> NamedScorer:
    """The scorer returned by a Python function, `package.module:FACTORY`.

    FACTORY() returns a `rescorer.contract.scorer.Scorer`.

    Raises:
        ConfigError: Python does not find it, or its result is no scorer.
        InputError: its module cannot be imported.
    """
    reference = ObjectReference.parse(place)
    factory = reference.load()
    if not callable(factory):
        raise ConfigError(f"{reference} is a {type(factory).__name__}, not a function")
    try:
        scorer = factory()
    except Exception as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{reference}() raised {told}") from error
    missing = [name for name in ("values", "shortlist", "needs_links") if not hasattr(scorer, name)]
    if missing:
        kind = type(scorer).__name__
        raise ConfigError(f"{reference}() gives a {kind} without {', '.join(missing)}: no Scorer")
    name = f"values of {reference}"
    source = getattr(factory, "__code__", None)
    files = [source.co_filename] if source and os.path.isfile(source.co_filename) else []
    return NamedScorer(name, CheckedScorer(scorer, str(reference)), f"{name} {_digest(files)}")


def _digest(files: Sequence[str]) -> str:
    """A digest of sizes and beginnings of files: another program gives other values."""
    digest = blake2b(digest_size=16)
    for path in files:
        with Path(path).open("rb") as content:
            digest.update(b"%d " % os.stat(content.fileno()).st_size)
            digest.update(content.read(DIGESTED_BYTES))
    return digest.hexdigest()


class CheckedScorer:
    """A scorer from outside whose values are checked; its name is for messages."""

    def __init__(self, scorer: Scorer, name: str) -> None:
        self._scorer, self._name = scorer, name
        self.shortlist, self.needs_links = scorer.shortlist, scorer.needs_links

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """See `contract.Scorer`.

        Raises:
            UserError: there are not as many values as pairs.
        """
        try:
            values = np.asarray(self._scorer.values(batch), np.float64)
        except (TypeError, ValueError) as error:
            raise UserError(f"{self._name}: its values are no numbers: {error}") from error
        if values.shape != (len(batch),):
            expected = f"({len(batch)},), one value for each pair"
            raise UserError(
                f"{self._name}: found values of shape {values.shape}, expected {expected}"
            )
        for row in np.flatnonzero(~np.isfinite(values))[:1].tolist():
            raise UnfitAnswer(row, batch, f"the value {values[row]}", f"{self._name}() gives it")
        return values


class CommandScorer:
    """A scorer running a program; see the module's docstring.

    Each calling thread has a process during the call, so there are as many as calls at a time. They
    end with the scorer.
    """

    shortlist = None

    def __init__(self, command: Sequence[str], needs_links: bool = False) -> None:
        self.needs_links = needs_links
        self._command = tuple(command)
        self._idle: list[_Process] = []
        weakref.finalize(self, _end_all, self._idle)

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """See `contract.Scorer`.

        Raises:
            UnscorablePair: the program gives no number for a pair, or ends.
            ToolError: it cannot be started.
        """
        try:
            process = self._idle.pop()
        except IndexError:
            process = _Process(self._command)
        try:
            values = process.values(batch)
        except BaseException:
            process.program.kill()
            raise
        self._idle.append(process)
        return values


def _end_all(processes: list[_Process]) -> None:
    for process in processes:
        process.program.close_input()
    for process in processes:
        process.program.close(PATIENCE_SECONDS)


class _Process:
    """One process of a program."""

    def __init__(self, command: Sequence[str]) -> None:
        self.program = InteractiveProgram(command)
        self._command = shlex.join(command)

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """The values of a block, *Shape:* (n_pairs,)."""
        columns = [batch.sources, batch.targets, *([] if batch.links is None else [batch.links])]
        lines = [b" ||| ".join(row) for row in zip(*columns, strict=True)]
        if not lines:
            return np.zeros(0)
        # A program that answers line by line fills its output while the block is still being written.
        writer = threading.Thread(
            target=self._write, args=(b"\n".join([*lines, b"", b""]),), daemon=True
        )
        told = (
            f"{self._command}: no answer to a block of {len(lines):,} pairs for {NOTE_SECONDS:.0f} s; "
            "a program must end its answer with an empty line and flush its output"
        )
        note = threading.Timer(NOTE_SECONDS, print_note, [told])
        note.daemon = True
        writer.start()
        note.start()
        try:
            values = np.array([self._value(row, batch) for row in range(len(lines))])
            self._check_end(batch)
        finally:
            note.cancel()
        writer.join()
        return values

    def _write(self, block: bytes) -> None:
        # The end of a program is noticed when reading.
        with contextlib.suppress(OSError, ValueError):
            self.program.input.write(block)
            self.program.input.flush()

    def _value(self, row: int, batch: Batch) -> float:
        line = self.program.output.readline(LONGEST_ANSWER)
        if not line:
            raise self._broken_off(row, batch)
        if not line.strip():
            fault = f"no value ({row} came for the {len(batch)} pairs of its block)"
            raise UnfitAnswer(row, batch, fault, self._gave)
        try:
            value = float(line) if b"_" not in line else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UnfitAnswer(row, batch, f"the value {shown(line.strip())}", self._gave)
        return value

    def _check_end(self, batch: Batch) -> None:
        line, last = self.program.output.readline(LONGEST_ANSWER), len(batch) - 1
        if not line:
            raise self._broken_off(last, batch)
        if line.strip():
            fault = f"{shown(line.strip())} behind the value"
            expected = f"an empty line after the {len(batch)} values of a block"
            raise UnfitAnswer(last, batch, fault, self._gave, expected)

    @property
    def _gave(self) -> str:
        return f"This is the answer of {self._command}"

    def _broken_off(self, row: int, batch: Batch) -> UnfitAnswer:
        """The error of a program that has closed its output, and has ended or soon will."""
        status = self.program.status(PATIENCE_SECONDS)
        how = "closed its output" if status is None else f"ended with status {status}"
        told = self.program.messages().splitlines()[-1:]
        hint = ": ".join([f"{self._command} {how}", *told])
        return UnfitAnswer(row, batch, "the end of the answer instead of the value", hint)
