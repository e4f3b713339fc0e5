"""Harmless oddities of a phrase table, and the order of its rows."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moses_bridge.formats.phrase_table import PhraseTableRow
from moses_bridge.formats.words import split_words

ABOVE_ONE = "scores above 1"
ZERO = "scores of 0 (Moses: log score -100)"
NEGATIVE = "scores below 0 (Moses: NaN, in silence)"
NO_NUMBER = "scores that are NaN, infinite or no number"
TWICE = "rows with the pair of an earlier row"
EMPTY_TARGET = "rows with an empty target"
NOT_ASCII = "rows in UTF-8 beyond ASCII"
NOT_UTF8 = "rows not in UTF-8 (Moses takes them byte by byte)"
UNICODE_BLANKS = (
    "rows with U+00A0, U+2028, U+200B, U+FEFF (a byte order mark) or the like, letters to Moses"
)
CARRIAGE_RETURNS = "rows that end in CR LF"
RETURNS_IN_WORDS = "rows with CR inside (a letter to Moses, the end of a line to others)"

# NO-BREAK SPACE, NEXT LINE, U+1680, U+2000-200B, U+2028-2029, U+202F, U+205F, U+2060, U+3000, U+FEFF.
_UNICODE_BLANK = re.compile(
    rb"\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8b\xa8\xa9\xaf]|\xe2\x81[\x9f\xa0]"
    rb"|\xe3\x80\x80|\xef\xbb\xbf"
)


@dataclass
class Tally:
    """A number of occurrences, and the line (1-based) of the first."""

    count: int
    first_line: int

    def __str__(self) -> str:
        return f"{self.count:,} (first in line {self.first_line})" if self.count else "0"


@dataclass
class TableContents:
    """Counts of a phrase table.

    Attributes:
        n_rows: number of parsable rows.
        source_factors: rows by the number of factors of each source word, if not 1; 0 if words differ.
        target_factors: the same for target words.
    """

    tallies: dict[str, Tally] = field(default_factory=dict)
    n_rows: int = 0
    source_factors: dict[int, Tally] = field(default_factory=dict)
    target_factors: dict[int, Tally] = field(default_factory=dict)
    _source: bytes | None = None
    _targets: set[bytes] = field(default_factory=set)

    def take(self, row: PhraseTableRow, line_number: int) -> None:
        """Count a row."""
        self.n_rows += 1
        if max(row.scores) > 1:
            self._add(ABOVE_ONE, line_number, sum(score > 1 for score in row.scores))
        if 0 in row.scores:
            self._add(ZERO, line_number, row.scores.count(0))
        if not row.target:
            self._add(EMPTY_TARGET, line_number)
        self._take_pair(row, line_number)
        self._take_bytes(row.line, line_number)
        if b"|" in row.source:
            _tally(self.source_factors, n_factors(row.source), line_number)
        if b"|" in row.target:
            _tally(self.target_factors, n_factors(row.target), line_number)

    def take_odd_scores(self, scores: Sequence[float], line_number: int) -> None:
        """Count oddities in the scores of a faulty row; NaN replaces anything but a number."""
        for score in scores:
            if not math.isfinite(score):
                self._add(NO_NUMBER, line_number)
            elif score < 0:
                self._add(NEGATIVE, line_number)

    def summary(self) -> Iterator[str]:
        """Lines for a reader: oddities, encoding and factors."""
        for what in (ABOVE_ONE, ZERO, NEGATIVE, NO_NUMBER):
            yield f"{what}: {self.tallies.get(what, 0)}"
        for what in (TWICE, EMPTY_TARGET, UNICODE_BLANKS, CARRIAGE_RETURNS, RETURNS_IN_WORDS):
            if what in self.tallies:
                yield f"{what}: {self.tallies[what]}"
        yield f"encoding: {self._encoding()}"
        yield f"factors of source words: {self._factors(self.source_factors)}"
        yield f"factors of target words: {self._factors(self.target_factors)}"

    def likely_factors(self, factors: dict[int, Tally]) -> int:
        """The number of factors in most rows, 0 if that is a mixture."""
        counts = {number: tally.count for number, tally in factors.items()}
        counts[1] = self.n_rows - sum(counts.values())
        return max(counts, key=lambda number: counts[number])

    def _take_pair(self, row: PhraseTableRow, line_number: int) -> None:
        if row.source != self._source:
            self._source, self._targets = row.source, set()
        elif row.target in self._targets:
            self._add(TWICE, line_number)
        self._targets.add(row.target)

    def _take_bytes(self, line: bytes, line_number: int) -> None:
        if line.endswith(b"\r"):
            self._add(CARRIAGE_RETURNS, line_number)
        if b"\r" in line.rstrip(b"\r"):
            self._add(RETURNS_IN_WORDS, line_number)
        if line.isascii():
            return
        self._add(NOT_ASCII if _is_utf8(line) else NOT_UTF8, line_number)
        if _UNICODE_BLANK.search(line):
            self._add(UNICODE_BLANKS, line_number)

    def _add(self, what: str, line_number: int, n_times: int = 1) -> None:
        self.tallies.setdefault(what, Tally(0, line_number)).count += n_times

    def _encoding(self) -> str:
        if NOT_UTF8 in self.tallies:
            return f"{NOT_UTF8}: {self.tallies[NOT_UTF8]}"
        return "UTF-8" if NOT_ASCII in self.tallies else "ASCII"

    def _factors(self, factors: dict[int, Tally]) -> str:
        likely = self.likely_factors(factors)
        others = [
            f"{number or 'mixed'} in {tally.count:,} rows (first in line {tally.first_line})"
            for number, tally in sorted(factors.items())
            if number != likely
        ]
        n_plain = self.n_rows - sum(tally.count for tally in factors.values())
        if likely != 1 and n_plain:
            others.append(f"1 in {n_plain:,} rows")
        return ", ".join([str(likely or "mixed"), *others])


def n_factors(phrase: bytes) -> int:
    """The number of factors of each word of a phrase, 0 if they differ."""
    numbers = {word.count(b"|") + 1 for word in split_words(phrase)}
    return numbers.pop() if len(numbers) == 1 else 0


def _tally(tallies: dict[int, Tally], number: int, line_number: int) -> None:
    tallies.setdefault(number, Tally(0, line_number)).count += 1


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


class SourceOrder:
    """Whether rows are sorted, and whether the rows of a source are adjacent.

    Each run of rows with one source needs only 16 bytes, so a table of any size can be checked.

    Attributes:
        first_unsorted: 1-based line of the first row sorting before the previous one, or None.
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
    def n_sources(self) -> int:
        """Different source phrases."""
        return len(np.unique(self._runs()))

    @property
    def first_ungrouped(self) -> int | None:
        """1-based line of the first source reappearing after another one; ProbingPT reads it twice."""
        _, first_runs = np.unique(self._runs(), return_index=True)
        is_first = np.zeros(len(self._hashes), np.bool_)
        is_first[first_runs] = True
        return None if is_first.all() else self._line_numbers[int(np.argmin(is_first))]

    def summary(self) -> Iterator[str]:
        """Lines for a reader."""
        is_sorted, is_grouped = map(_yes_or_no, (self.first_unsorted, self.first_ungrouped))
        yield f"sorted as LC_ALL=C sort, for processPhraseTableMin: {is_sorted}"
        yield f"rows of a source together, for CreateProbingPT: {is_grouped}"

    def _runs(self) -> NDArray[np.int64]:
        return np.frombuffer(self._hashes, np.int64) if self._hashes else np.empty(0, np.int64)


def _yes_or_no(line_number: int | None) -> str:
    return "yes" if line_number is None else f"no (first in line {line_number})"
