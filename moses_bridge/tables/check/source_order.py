"""The order of a table's rows, as far as Moses's binarisers depend on it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


class SourceOrder:
    """Whether rows are sorted, and whether the rows of a source are adjacent.

    Of each run of rows with one source 16 bytes are kept, so that a table of any size can be checked.

    Attributes:
        first_unsorted: 1-based line of the first row that sorts before the one above it, or None.
    """

    def __init__(self) -> None:
        self.first_unsorted: int | None = None
        self._previous_line = b""
        self._previous_source: bytes | None = None
        self._hashes = array("q")
        self._line_numbers = array("q")

    def take(self, line: bytes, source: bytes | None, line_number: int) -> None:
        """Count a row; the source is None where it is unknown."""
        if line < self._previous_line and self.first_unsorted is None:
            self.first_unsorted = line_number
        self._previous_line = line
        if source is not None and source != self._previous_source:
            self._hashes.append(hash(source))
            self._line_numbers.append(line_number)
            self._previous_source = source

    @property
    def sorted_rows(self) -> bool:
        """The rows are in the order of `LC_ALL=C sort`, as processPhraseTableMin needs them."""
        return self.first_unsorted is None

    @property
    def n_sources(self) -> int:
        """Different source phrases."""
        return len(np.unique(self._runs()))

    @property
    def first_ungrouped(self) -> int | None:
        """1-based line where a source reappears after another one; ProbingPT reads such a source twice."""
        _, first_runs = np.unique(self._runs(), return_index=True)
        is_first = np.zeros(len(self._hashes), np.bool_)
        is_first[first_runs] = True
        return None if is_first.all() else self._line_numbers[int(np.argmin(is_first))]

    @property
    def grouped(self) -> bool:
        """No source reappears after another one."""
        return self.n_sources == len(self._hashes)

    def summary(self) -> Iterator[str]:
        """Lines for a reader."""
        unsorted = _no(self.first_unsorted)
        yield f"sorted as LC_ALL=C sort, for processPhraseTableMin: {unsorted}"
        yield f"rows of a source together, for CreateProbingPT: {_no(self.first_ungrouped)}"

    def _runs(self) -> NDArray[np.int64]:
        return np.frombuffer(self._hashes, np.int64) if self._hashes else np.empty(0, np.int64)


def _no(line_number: int | None) -> str:
    return "yes" if line_number is None else f"no (first in line {line_number})"
