"""Values from outside the package: printed by a program, or given by a Python object.

docs/formats.md has the protocol of the program ("Values of a program"). A value must not depend on the other
pairs of its block: several blocks may be worked on at a time, each by its own process.
"""

from __future__ import annotations

import os
import shlex
import shutil
import weakref
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, ToolError, UserError
from moses_bridge.base.number_program import NumberProgram, WrongAnswer
from moses_bridge.base.programs import PATIENCE_SECONDS
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.object_reference import ObjectReference
from rescorer.contract.scorer import NamedScorer, Scorer

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
    """The scorer of a program with the protocol of docs/formats.md, as a shell starts it.

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
        """See `contract.Scorer`; UserError if there are not as many values as pairs."""
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
    """A scorer running a program; docs/formats.md has the protocol.

    Each calling thread has a process during the call, so there are as many as calls at a time. They
    end with the scorer.
    """

    shortlist = None

    def __init__(self, command: Sequence[str], needs_links: bool = False) -> None:
        self.needs_links = needs_links
        self._command = tuple(command)
        self._idle: list[NumberProgram] = []
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
            process = NumberProgram(self._command)
        columns = [batch.sources, batch.targets, *([] if batch.links is None else [batch.links])]
        try:
            values = process.numbers([b" ||| ".join(row) for row in zip(*columns, strict=True)])
        except WrongAnswer as error:
            expected = error.expected or EXPECTED
            raise UnfitAnswer(error.place, batch, error.found, error.hint, expected) from error
        self._idle.append(process)
        return np.array(values)


def _end_all(processes: list[NumberProgram]) -> None:
    for process in processes:
        process.program.close_input()
    for process in processes:
        process.program.close(PATIENCE_SECONDS)
