"""All faults of a moses.ini, of version 1 or 2, for a phrase table, each with its line.

Unlike `formats.moses_ini`, which stops at the first fault, this reads on like Moses: "#" begins a comment
anywhere in a line (moses/Parameter.cpp:1433), a feature's arguments end at blanks
(moses/FF/FeatureFunction.cpp:84-96).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import STANDARD_STREAM, read_lines
from moses_bridge.formats.moses_ini import LIMITS, TABLE_LIMIT, parse_limit, tokens, with_sections
from moses_bridge.formats.moses_ini_v1 import V1_SECTIONS
from moses_bridge.formats.words import to_number
from moses_bridge.tables.check.table import CheckReport
from moses_bridge.tables.check.table_contents import Tally

TABLE_KINDS = ("PhraseDictionary", "ProbingPT", "RuleTable")
TEXT_TABLES = ("PhraseDictionaryMemory", "0")
SECTIONS_WITH_PATHS = [
    "feature",
    "ttable-file",
    "lmodel-file",
    "distortion-file",
    "generation-file",
]
COMMENT = re.compile("[ \t]#")
CUT_PATH = re.compile(r"(?:path=|/)\S*#")
GZ = ".gz"
NO_BLANKS = "Moses splits at blanks, so a path cannot hold one"


@dataclass(frozen=True)
class TableEntry:
    """The entry of an ini for one phrase table.

    Attributes:
        kind: type of the feature; in version 1 a number, 0 for text.
        name: name of the feature, or "table 1" and so on in version 1.
        n_weights: weights given, None without a line of them.
    """

    line_number: int
    kind: str
    name: str
    path: str
    n_scores: int
    n_source_factors: int
    n_target_factors: int
    n_weights: int | None = None


@dataclass
class _IniSoFar:
    path: Path
    tables: list[TableEntry] = field(default_factory=list)
    unnamed: Counter[str] = field(default_factory=Counter)
    n_scores: dict[str, int | None] = field(default_factory=dict)
    n_weights: dict[str, int] = field(default_factory=dict)
    weight_lines: dict[str, int] = field(default_factory=dict)
    n_v1_weights: int = 0
    v1_line: int | None = None
    faults: list[InputError] = field(default_factory=list)

    def add_fault(self, line_number: int | None, found: str, expected: str, hint: str = "") -> None:
        self.faults.append(InputError(self.path, line_number, found, expected, hint))


def ini_faults(ini_path: Path, report: CheckReport) -> list[InputError]:
    """Faults of an ini (version 1 or 2) concerning phrase tables and weights, given the report of a table.

    Raises:
        InputError: the ini cannot be read.
    """
    reading = _read(ini_path)
    tables = [_with_weights(table, reading) for table in reading.tables]
    _check_weights(tables, reading)
    for table in tables:
        _check_file(table, reading)
    entry = _entry_of(report.path, tables, reading)
    faults = sorted(reading.faults, key=lambda fault: fault.line or 0)
    return faults + (list(_misfits(entry, ini_path, report)) if entry else [])


def _read(ini_path: Path) -> _IniSoFar:
    reading = _IniSoFar(ini_path)
    lines = list(read_lines(ini_path))
    for line_number, (section, text) in enumerate(with_sections(lines), start=1):
        if section in V1_SECTIONS and reading.v1_line is None:
            reading.v1_line = line_number
        if not text:
            continue
        if section in SECTIONS_WITH_PATHS:
            _check_cut(lines[line_number - 1], text, line_number, reading)
        if section == "feature":
            _read_feature(text, line_number, reading)
        elif section == "weight":
            _read_weights(text, line_number, reading)
        elif section == "ttable-file":
            _read_v1_table(text, line_number, reading)
        elif section == "weight-t":
            _check_numbers(tokens(text), line_number, reading)
            reading.n_v1_weights += 1
        elif section in LIMITS:
            _check_limit(section, text, line_number, reading)
    if reading.v1_line is not None and (reading.n_scores or reading.n_weights):
        found = "a section of a version 1 ini beside [feature] or [weight]"
        hint = "Moses refuses the mixture (moses/Parameter.cpp:555-573)"
        reading.add_fault(reading.v1_line, found, "sections of one version", hint)
    return reading


def _check_cut(line: bytes, text: str, line_number: int, reading: _IniSoFar) -> None:
    """Report a "#" within a path, taken by Moses for the start of a comment."""
    if CUT_PATH.search(COMMENT.split(line.decode("utf-8", "replace"))[0]):
        found = f"{tokens(text)[-1]!r}, all that is left before a '#'"
        hint = "Moses takes what follows for a comment; rename the file"
        reading.add_fault(line_number, found, "paths without '#'", hint)


def _read_feature(text: str, line_number: int, reading: _IniSoFar) -> None:
    kind, *words = tokens(text)
    arguments = dict(token.split("=", 1) for token in words if "=" in token)
    for token in words:
        if "=" not in token:
            reading.add_fault(line_number, f"{token!r}", "key=value", NO_BLANKS)
    name = arguments.get("name", f"{kind}{reading.unnamed[kind]}")
    reading.unnamed[kind] += "name" not in arguments
    n_scores = _whole_number(arguments.get("num-features", "1"), line_number, reading)
    if name in reading.n_scores:
        reading.add_fault(line_number, f"a second feature {name}", "one feature of each name")
    reading.n_scores[name] = n_scores if "num-features" in arguments else None
    if TABLE_LIMIT in arguments:
        _check_limit(TABLE_LIMIT, arguments[TABLE_LIMIT], line_number, reading)
    if kind.startswith(TABLE_KINDS):
        factors = (arguments.get(f"{side}-factor", "0") for side in ("input", "output"))
        n_factors = (len(numbers.split(",")) for numbers in factors)
        path = arguments.get("path", "")
        reading.tables.append(TableEntry(line_number, kind, name, path, n_scores, *n_factors))


def _read_v1_table(text: str, line_number: int, reading: _IniSoFar) -> None:
    words = tokens(text)
    if len(words) != 5:
        expected = "5: implementation, input factors, output factors, number of scores, path"
        reading.add_fault(line_number, f"{len(words)} words", expected, NO_BLANKS)
        return
    kind, source_factors, target_factors, n_scores, path = words
    number, name = _whole_number(n_scores, line_number, reading), f"table {len(reading.tables) + 1}"
    n_factors = (len(numbers.split(",")) for numbers in (source_factors, target_factors))
    reading.tables.append(TableEntry(line_number, kind, name, path, number, *n_factors))


def _read_weights(text: str, line_number: int, reading: _IniSoFar) -> None:
    name, *numbers = tokens(text)
    if not name.endswith("="):
        expected = "Name= and its weights, a blank between"
        hint = "Moses drops the last character of the name (moses/Parameter.cpp:1196)"
        reading.add_fault(line_number, f"{name!r}", expected, hint)
        return
    _check_numbers(numbers, line_number, reading)
    name = name[:-1]
    if name in reading.n_weights:
        reading.add_fault(line_number, f"weights of {name} again", "one line for each feature")
    reading.n_weights[name] = len(numbers)
    reading.weight_lines[name] = line_number


def _check_numbers(numbers: Sequence[str], line_number: int, reading: _IniSoFar) -> None:
    for token in numbers:
        if not abs(to_number(token.encode("utf-8", "surrogateescape"))) < float("inf"):
            reading.add_fault(line_number, f"the weight {token!r}", "finite numbers")


def _check_limit(name: str, text: str, line_number: int, reading: _IniSoFar) -> None:
    try:
        parse_limit(name, text, reading.path, line_number)
    except InputError as fault:
        reading.faults.append(fault)


def _whole_number(text: str, line_number: int, reading: _IniSoFar) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    reading.add_fault(line_number, f"{text!r} scores", "a whole number")
    return 0


def _with_weights(table: TableEntry, reading: _IniSoFar) -> TableEntry:
    """The entry with its number of weights; in version 1 all tables share one row of weights."""
    if reading.v1_line is None:
        return replace(table, n_weights=reading.n_weights.get(table.name))
    n_earlier = 0
    for entry in reading.tables[: reading.tables.index(table)]:
        n_earlier += entry.n_scores
    left = max(0, reading.n_v1_weights - n_earlier)
    is_last = table == reading.tables[-1]
    return replace(table, n_weights=left if is_last else min(left, table.n_scores))


def _check_weights(tables: Sequence[TableEntry], reading: _IniSoFar) -> None:
    for name, line_number in reading.weight_lines.items():
        is_known = name in reading.n_scores or name.partition("_")[0] in reading.n_scores  # sparse
        if not is_known and reading.v1_line is None:
            expected = "weights of features that are there"
            hint = "Moses refuses to start (moses/StaticData.cpp:631-672)"
            reading.add_fault(line_number, f"weights of {name}", expected, hint)
        n_scores = reading.n_scores.get(name)
        if n_scores is not None and n_scores != reading.n_weights[name]:
            found = f"{reading.n_weights[name]} weights of {name}"
            reading.add_fault(line_number, found, f"{n_scores}, its num-features")
    for table in tables:
        if table.n_weights is None:
            expected = "a line of weights for each phrase table"
            hint = "Moses takes 1 for each, in silence"
            reading.add_fault(table.line_number, f"no weights of {table.name}", expected, hint)
        elif reading.v1_line is not None and table.n_weights != table.n_scores:
            found = f"{table.n_weights} weights left in [weight-t] for {table.name}"
            reading.add_fault(table.line_number, found, f"{table.n_scores}")


def _check_file(table: TableEntry, reading: _IniSoFar) -> None:
    if not table.path:
        reading.add_fault(table.line_number, f"no path of {table.name}", "path=FILE")
    elif table.kind in TEXT_TABLES and not any(
        path.exists() for path in _candidates(table, reading.path)
    ):
        found = f"the path {table.path!r}, where there is no file"
        hint = "Moses looks from its working directory, and for the same name with .gz"
        reading.add_fault(table.line_number, found, "a phrase table", hint)


def _candidates(table: TableEntry, ini_path: Path) -> list[Path]:
    """Possible files of a path: relative to the working directory as in Moses, or to the ini."""
    places = [Path(table.path), ini_path.parent / table.path]
    return [path for place in places for path in (place, place.with_name(place.name + GZ))]


def _entry_of(checked: str, tables: Sequence[TableEntry], reading: _IniSoFar) -> TableEntry | None:
    """The entry of the checked table: by its path, or the only one."""
    real = Path(checked).resolve()
    for table in tables:
        if table.path and real in [path.resolve() for path in _candidates(table, reading.path)]:
            return table
    names = ", ".join(f"{table.name} with {table.path}" for table in tables) or "none"
    if checked != STANDARD_STREAM or len(tables) != 1:
        line_number = tables[0].line_number if len(tables) == 1 else None
        reading.add_fault(line_number, f"phrase tables: {names}", f"one with the path {checked}")
    return tables[0] if len(tables) == 1 else None


def _misfits(entry: TableEntry, ini_path: Path, report: CheckReport) -> Iterator[InputError]:
    """The contradictions between the entry of a table and its rows."""
    if report.n_scores is not None and entry.n_scores != report.n_scores:
        found = f"{entry.n_scores} scores of {entry.name}"
        expected = f"{report.n_scores}, as the rows of {report.path} have"
        hint = "num-features and weights change together"
        yield InputError(ini_path, entry.line_number, found, expected, hint)
    contents = report.contents
    for side, n_factors, factors in (
        ("source", entry.n_source_factors, contents.source_factors),
        ("target", entry.n_target_factors, contents.target_factors),
    ):
        yield from _factor_misfits(side, n_factors, factors, contents.n_rows, report.path)


def _factor_misfits(
    side: str, n_expected: int, factors: dict[int, Tally], n_rows: int, table: str
) -> Iterator[InputError]:
    odd = {number: tally for number, tally in factors.items() if number != n_expected}
    n_plain = n_rows - sum(tally.count for tally in factors.values())
    if n_expected != 1 and n_plain:
        odd[1] = Tally(n_plain, 0)
    for number, tally in sorted(odd.items()):
        found = f"{number or 'a mixture of'} factors of {side} words in {tally.count:,} rows"
        hint = (
            "Moses cuts what is too much in silence, and stops at too few (moses/Word.cpp:139-167)"
        )
        line, expected = tally.first_line or None, f"{n_expected}, as the ini says"
        yield InputError(table, line, found, expected, hint)
