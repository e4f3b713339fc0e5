"""Faults of a phrase table, each with its line, and the counts of its contents."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.phrase_table import columns_of, parse_row, score_tokens, to_number
from moses_bridge.formats.row_columns import FEWEST_COLUMNS, SCORES
from moses_bridge.tables.check.row_faults import line_faults, row_faults
from moses_bridge.tables.check.source_order import SourceOrder
from moses_bridge.tables.check.table_contents import TableContents

MAX_SHOWN = 20


@dataclass
class CheckReport:
    """The contents of a phrase table.

    Attributes:
        path: the table.
        n_scores: dense scores that each row should have: those of the first good row, unless given.
        max_shown: how many faults of a kind are kept.
        faults: what is wrong, in the order of the rows, at most max_shown of a kind.
        fault_counts: how many faults there are of each kind, by what was expected.
        n_rows: rows, faulty ones included.
        score_counts: rows of each number of scores.
        order: different sources, whether sorted and grouped.
        contents: what is no fault, but good to know.
    """

    path: str
    n_scores: int | None = None
    max_shown: int = MAX_SHOWN
    faults: list[InputError] = field(default_factory=list)
    fault_counts: Counter[str] = field(default_factory=Counter)
    n_rows: int = 0
    score_counts: Counter[int] = field(default_factory=Counter)
    order: SourceOrder = field(default_factory=SourceOrder)
    contents: TableContents = field(default_factory=TableContents)

    @property
    def n_faults(self) -> int:
        """All faults, including those not kept."""
        return self.fault_counts.total()

    def add_faults(self, faults: Iterable[InputError]) -> None:
        """Count faults, and keep those to be shown."""
        for fault in faults:
            self.fault_counts[fault.expected] += 1
            if self.fault_counts[fault.expected] <= self.max_shown:
                self.faults.append(fault)

    def summary(self) -> Iterator[str]:
        """Lines for a reader."""
        yield f"{self.n_rows:,} rows, {self.order.n_sources:,} sources, {self._scores()}"
        yield from self.order.summary()
        yield from self.contents.summary()
        yield f"faults: {self.n_faults:,}"
        for expected, n_faults in self.fault_counts.items():
            hidden = n_faults - self.max_shown
            shown = f" ({hidden:,} of them not shown)" if hidden > 0 else ""
            yield f"  expected {expected}: {n_faults:,}{shown}"

    def _scores(self) -> str:
        if len(self.score_counts) < 2:
            return f"{next(iter(self.score_counts), 0)} scores a row"
        counts = sorted(self.score_counts.items())
        return ", ".join(f"{n_scores} scores in {n_rows:,} rows" for n_scores, n_rows in counts)


def check_table(
    path: StrPath, n_scores: int | None = None, max_shown: int = MAX_SHOWN
) -> CheckReport:
    """Read a whole phrase table and collect its faults.

    Args:
        path: the table.
        n_scores: dense scores of each row; None takes the number of the first good row.
        max_shown: how many faults of a kind are kept; the others are counted.

    Raises:
        InputError: the file itself cannot be read.
    """
    report = CheckReport(os.fspath(path), n_scores, max_shown)
    try:
        for line_number, line in enumerate(read_lines(path), start=1):
            report.n_rows += 1
            _check_line(line, line_number, report)
    except InputError as fault:
        if fault.line is None:
            raise
        report.add_faults([fault])
    return report


def _check_line(line: bytes, line_number: int, report: CheckReport) -> None:
    try:
        row = parse_row(line, report.path, line_number, report.n_scores)
    except InputError:
        report.add_faults(line_faults(line, report.path, line_number, report.n_scores))
        report.order.take(line, None, line_number)
        _count_faulty(line, line_number, report)
        return
    report.n_scores = len(row.scores)
    report.add_faults(row_faults(row, report.path, line_number))
    report.score_counts[report.n_scores] += 1
    report.order.take(line, row.source, line_number)
    report.contents.take(row, line_number)


def _count_faulty(line: bytes, line_number: int, report: CheckReport) -> None:
    """Scores of a malformed row, if it has any."""
    columns = columns_of(line)
    if len(columns) >= FEWEST_COLUMNS:
        scores = [to_number(token) for token in score_tokens(columns[SCORES])]
        report.score_counts[len(scores)] += 1
        report.contents.take_odd_scores(scores, line_number)
