"""A metric by a command: one number for each hypothesis, such as COMET's, whose mean is tuned for.

Each distinct hypothesis of a sentence is asked for once; a file keeps the numbers, if one is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuning.pools.metric import Counts, SummedMetric, TextReferences, Values
from tuning.pools.number_command import NumberCommand, Question

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
            Question(self._sources[number], self.sentences[number], words)
            for number, words in hypotheses
        ]
        rows = [(number, 1.0) for number in self._command.numbers(questions)]
        return np.array(rows).reshape(-1, 2)
