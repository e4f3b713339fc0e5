"""Faults of a phrase table, each with its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from moses_bridge.errors import InputError
from moses_bridge.formats.phrase_table import parse_row
from moses_bridge.textio import StrPath, read_lines


@dataclass
class CheckReport:
    """What is in a phrase table.

    Attributes:
        faults: one error for each faulty row.
        n_rows: rows, faulty ones included.
        n_sources: runs of rows with the same source.
        n_scores: dense scores of the first good row.
        sorted_rows: the rows are in the order of `LC_ALL=C sort`, as binarisers want them.
        grouped: no source comes back after another one, as ProbingPT wants it.
        n_above_one: scores over 1.
        n_zero: scores that are 0, which Moses floors at log score -100.
    """

    faults: list[InputError] = field(default_factory=list)
    n_rows: int = 0
    n_sources: int = 0
    n_scores: int | None = None
    sorted_rows: bool = True
    grouped: bool = True
    n_above_one: int = 0
    n_zero: int = 0

    def summary(self) -> Iterator[str]:
        """Lines for a reader."""
        yield f"{self.n_rows} rows, {self.n_sources} sources, {self.n_scores or 0} scores a row"
        yield f"sorted as LC_ALL=C sort: {'yes' if self.sorted_rows else 'no'}"
        yield f"rows of a source together: {'yes' if self.grouped else 'no'}"
        yield f"scores above 1: {self.n_above_one}, scores of 0: {self.n_zero}"


def check_table(path: StrPath, n_scores: int | None = None) -> CheckReport:
    """Read a whole phrase table and collect its faults.

    Args:
        path: the table.
        n_scores: dense scores of each row; None takes the number of the first good row.

    Raises:
        InputError: the file itself cannot be read.
    """
    report = CheckReport(n_scores=n_scores)
    previous_line, previous_source = b"", None
    seen: set[bytes] = set()
    for line_number, line in enumerate(read_lines(path), start=1):
        report.n_rows += 1
        report.sorted_rows &= previous_line <= line
        previous_line = line
        try:
            row = parse_row(line, path, line_number, report.n_scores)
        except InputError as fault:
            report.faults.append(fault)
            continue
        report.n_scores = len(row.scores)
        report.n_above_one += sum(score > 1 for score in row.scores)
        report.n_zero += sum(score == 0 for score in row.scores)
        if row.source != previous_source:
            report.n_sources += 1
            report.grouped &= row.source not in seen
            seen.add(row.source)
            previous_source = row.source
    return report
