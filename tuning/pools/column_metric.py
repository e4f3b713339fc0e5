"""A metric by a command: one number for each hypothesis, such as COMET's, whose mean is tuned for.

Each distinct hypothesis of a sentence is asked for once; a file keeps the numbers, if one is named.
"""

from __future__ import annotations

import hashlib
import math
import shlex
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.programs import run_program
from moses_bridge.base.textio import StrPath, read_lines, write_lines
from tuning.pools.metric import Counts, SummedMetric, TextReferences, Values

PLACES = ("source", "hypotheses", "reference", "out")
NEEDED = ("{hypotheses}", "{out}")
SPREAD = 0.1  # of the qualities: PRO draws pairs that differ by half a standard deviation


class ColumnMetric(SummedMetric):
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


class ColumnReferences(TextReferences):
    """References for a metric by a command; see `TextReferences`.

    Args:
        sentences: for each sentence its references; a command is given the first one.
        sources: the source of each sentence.
        command: the command, with {hypotheses}, {source}, {reference} and {out} in the place of paths. The
            first three have one line for each hypothesis asked for; to {out} it writes a number for each.
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
        self._command = command
        self._cache = cache
        self._numbers: dict[str, float] = {}
        _check(command)
        if cache is not None and cache.exists():
            self._numbers = dict(_cached(cache))

    def statistics(self, hypotheses: Iterable[tuple[int, bytes]]) -> NDArray[np.float64]:
        """Statistics of hypotheses, the number and 1: *Shape:* (n, 2).

        Raises:
            ToolError: the command failed.
            InputError: it wrote something else than a finite number for each hypothesis.
        """
        pairs = list(hypotheses)
        keys = [self._key(number, words) for number, words in pairs]
        new = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in self._numbers}
        if new:
            self._numbers.update(zip(new, self._ask([*new.values()]), strict=True))
            if self._cache is not None:
                lines = [f"{key} {number!r}".encode() for key, number in self._numbers.items()]
                write_lines(self._cache, lines)
        return np.array([[self._numbers[key], 1.0] for key in keys]).reshape(-1, 2)

    def _key(self, number: int, words: bytes) -> str:
        parts = (self._command.encode(), self._sources[number], *self.sentences[number], words)
        return hashlib.sha256(b"\n".join(parts)).hexdigest()

    def _ask(self, pairs: Sequence[tuple[int, bytes]]) -> list[float]:
        with tempfile.TemporaryDirectory(prefix="metric.") as folder:
            paths = {name: str(Path(folder) / name) for name in PLACES}
            write_lines(paths["hypotheses"], [words for _, words in pairs])
            write_lines(paths["source"], [self._sources[number] for number, _ in pairs])
            write_lines(paths["reference"], [self.sentences[number][0] for number, _ in pairs])
            run_program([word.format(**paths) for word in shlex.split(self._command)])
            return _numbers(Path(paths["out"]), len(pairs))


def _check(command: str) -> None:
    for place in NEEDED:
        if place not in command:
            raise ConfigError(f"the metric's command has no {place}: {command!r}")
    try:
        [word.format(**dict.fromkeys(PLACES, "")) for word in shlex.split(command)]
    except (LookupError, AttributeError, ValueError) as error:
        raise ConfigError(f"the metric's command: found {command!r} ({error})") from error


def _numbers(path: Path, n_expected: int) -> list[float]:
    """The numbers that the command wrote."""
    what = "the numbers of the metric's command"
    lines = list(read_lines(path)) if path.exists() else []
    if len(lines) != n_expected:
        raise InputError(what, None, f"{len(lines)} lines", f"{n_expected}, one a hypothesis")
    return [_number(line, what, place) for place, line in enumerate(lines, start=1)]


def _number(text: bytes, path: StrPath, line_number: int) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(path, line_number, shown(text), "a finite number")
    return number


def _cached(path: Path) -> Iterable[tuple[str, float]]:
    for line_number, line in enumerate(read_lines(path), start=1):
        key, _, number = line.partition(b" ")
        yield key.decode("ascii", "replace"), _number(number, path, line_number)
