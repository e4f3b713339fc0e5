"""Faults of a phrase table, each with its line."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

from moses_bridge.errors import InputError
from moses_bridge.formats.alignment import parse_links
from moses_bridge.formats.phrase_table import PhraseTableRow, parse_row
from moses_bridge.textio import StrPath, read_lines


@dataclass
class CheckReport:
    """What is in a phrase table.

    Attributes:
        faults: what is wrong, in the order of the rows.
        n_rows: rows, faulty ones included.
        n_sources: different source phrases.
        n_scores: dense scores of the first good row.
        sorted_rows: the rows are in the order of `LC_ALL=C sort`, as binarisers want them.
        grouped: no source comes back after another one, as ProbingPT wants it.
        n_above_one: scores over 1.
        n_zero: scores that are 0, which Moses floors at log score -100.
        n_not_utf8: rows in another encoding, which Moses takes byte by byte.
        n_carriage_returns: rows that end in CR LF.
    """

    faults: list[InputError] = field(default_factory=list)
    n_rows: int = 0
    n_sources: int = 0
    n_scores: int | None = None
    sorted_rows: bool = True
    grouped: bool = True
    n_above_one: int = 0
    n_zero: int = 0
    n_not_utf8: int = 0
    n_carriage_returns: int = 0

    def count(self, row: PhraseTableRow) -> None:
        """Take a good row into the counts."""
        self.n_scores = len(row.scores)
        if max(row.scores) > 1:
            self.n_above_one += sum(score > 1 for score in row.scores)
        self.n_zero += row.scores.count(0)
        self.n_carriage_returns += row.line.endswith(b"\r")
        self.n_not_utf8 += not _is_utf8(row.line)

    def summary(self) -> Iterator[str]:
        """Lines for a reader."""
        yield f"{self.n_rows} rows, {self.n_sources} sources, {self.n_scores or 0} scores a row"
        yield f"sorted as LC_ALL=C sort: {'yes' if self.sorted_rows else 'no'}"
        yield f"rows of a source together: {'yes' if self.grouped else 'no'}"
        yield f"scores above 1: {self.n_above_one}, scores of 0: {self.n_zero}"
        yield f"rows not in UTF-8: {self.n_not_utf8}, with CR LF: {self.n_carriage_returns}"
        yield f"faults: {len(self.faults)}"


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
        report.faults += row_faults(row, path, line_number)
        report.count(row)
        if row.source != previous_source:
            report.n_sources += row.source not in seen
            report.grouped &= row.source not in seen
            seen.add(row.source)
            previous_source = row.source
    return report


def row_faults(row: PhraseTableRow, path: StrPath, line_number: int) -> Iterator[InputError]:
    """What Moses would stop at, or misread, in a row that can be parsed."""
    for phrase in (row.source, row.target):
        if not phrase.endswith(b"]"):
            continue
        last_word = phrase.rpartition(b" ")[2]
        if last_word.startswith(b"["):
            yield InputError(
                path,
                line_number,
                f"the last word {_shown(last_word)}",
                "no word in brackets",
                "Moses takes it for a label (moses/Phrase.cpp:187-219); escape it as &#91;...&#93;",
            )
    source_len, target_len = len(row.source.split()), len(row.target.split())
    if not _links_fit(row.alignment, source_len, target_len):
        yield from _link_faults(row, source_len, target_len, path, line_number)


@functools.lru_cache(maxsize=1 << 16)
def _links_fit(alignment: bytes, source_len: int, target_len: int) -> bool:
    """Whether there is no fault; remembered, since alignments repeat themselves a lot."""
    try:
        links = parse_links(alignment)
    except InputError:
        return False
    return all(source < source_len and target < target_len for source, target in links)


def _link_faults(
    row: PhraseTableRow, source_len: int, target_len: int, path: StrPath, line_number: int
) -> Iterator[InputError]:
    try:
        links = parse_links(row.alignment, path, line_number)
    except InputError as fault:
        yield fault
        return
    for source, target in links:
        if source >= source_len or target >= target_len:
            yield InputError(
                path,
                line_number,
                f"the link {source}-{target}",
                f"one within {source_len} source and {target_len} target words",
            )


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", "replace"))
