"""A phrase table as a pandas DataFrame, and a DataFrame as a phrase table, for tables fitting into memory.

The column `line` keeps each row as it was read. Writing changes only fields whose values have changed, so a
table read and written back is the same bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moses_bridge.base.errors import UserError
from moses_bridge.base.textio import StrPath, open_write, read_lines
from moses_bridge.formats.phrase_table import (
    BLANKS,
    alignment_of,
    check_row,
    columns_of,
    score_tokens,
)
from moses_bridge.formats.python_text import decoded, encoded
from moses_bridge.formats.row_columns import ALIGNMENT, BAR, COUNTS, SCORES, SOURCE, TARGET
from moses_bridge.formats.words import to_number

if TYPE_CHECKING:
    import pandas as pd

COUNT_NAMES = ("count_target", "count_source", "count_pair")
LINE = "line"
SCORE = re.compile(r"score(0|[1-9]\d*)")
_AFTER = b" \t\r"  # a carriage return at the end of a row is no part of its last number


def read_frame(path: StrPath) -> pd.DataFrame:
    """Read a phrase table, decompressed by suffix, one row of the frame for each of its rows.

    Returns:
        `source` and `target` as str, `score0`, `score1`, ... as in the table (probabilities), `alignment`,
        `count_target`, `count_source`, `count_pair` (NaN where a row has none), and `line`, the whole row, for
        `write_frame`. A byte outside UTF-8 is a lone surrogate in a str.

    Raises:
        InputError: a row is malformed.
    """
    import pandas as pd

    rows = list[tuple[object, ...]]()
    n_scores: int | None = None
    for line_number, line in enumerate(read_lines(path), start=1):
        n_scores = check_row(line, path, line_number, n_scores)
        rows.append((*_values(columns_of(line)), decoded(line)))
    scores = [f"score{number}" for number in range(n_scores or 0)]
    names = ["source", "target", *scores, "alignment", *COUNT_NAMES, LINE]
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    numbers = {*scores, *COUNT_NAMES}
    # Texts are plain objects: pandas's own strings may refuse a lone surrogate.
    return pd.DataFrame(
        {
            name: pd.Series(column, dtype=float if name in numbers else object)
            for name, column in zip(names, columns, strict=True)
        }
    )


def _values(columns: Sequence[bytes]) -> tuple[object, ...]:
    texts = (decoded(columns[place].strip(BLANKS)) for place in (SOURCE, TARGET))
    scores = map(to_number, score_tokens(columns[SCORES]))
    return (*texts, *scores, decoded(alignment_of(columns)), *_counts(columns))


def _counts(columns: Sequence[bytes]) -> list[float]:
    tokens = _count_tokens(columns)
    numbers = [to_number(token) for token in tokens[: len(COUNT_NAMES)]]
    return numbers + [math.nan] * (len(COUNT_NAMES) - len(numbers))


def _count_tokens(columns: Sequence[bytes]) -> list[bytes]:
    return score_tokens(columns[COUNTS]) if len(columns) > COUNTS else []


def write_frame(frame: pd.DataFrame, path: StrPath) -> None:
    """Write a phrase table from the columns made by `read_frame`, in the order of the rows, without the index.

    Scores may be changed, added (`score4` after `score3`) or removed; new or changed scores are written with
    seven digits. Without `line` (in all rows or, as None or NaN, in some) a row is written from `source`,
    `target`, the scores and, if present, alignment and counts. The table is compressed by suffix; it appears
    only when it is complete.

    Raises:
        UserError: a column is missing or unknown, a text contains "|||" or a line end, or a score is not a
            finite number.
    """
    n_scores = _check_columns([*frame.columns])
    with open_write(path) as stream:
        stream.writelines(row + b"\n" for row in _rows(frame, n_scores))


def _check_columns(names: Sequence[Any]) -> int:
    """Count the score columns, refusing unknown or missing columns."""
    scores = sorted(int(name[5:]) for name in names if SCORE.fullmatch(str(name)))
    known = {"source", "target", "alignment", *COUNT_NAMES, LINE}
    others = [name for name in names if name not in known and not SCORE.fullmatch(str(name))]
    missing = [name for name in ("source", "target") if name not in names]
    fault = f"the column {others[0]!r}" if others else ""
    if missing:
        fault = f"no column {missing[0]!r}"
    elif len(set(names)) < len(names):
        fault = "a column twice"
    elif not scores or scores != [*range(len(scores))]:
        fault = f"scores {', '.join(f'score{number}' for number in scores) or 'missing'}"
    if fault:
        raise UserError(
            f"a phrase table: found {fault}, expected source, target, score0, score1, ..., alignment, "
            f"{', '.join(COUNT_NAMES)}, {LINE}. Rename a column or drop it"
        )
    return len(scores)


def _rows(frame: pd.DataFrame, n_scores: int) -> Iterator[bytes]:
    names = ["source", "target", *(f"score{number}" for number in range(n_scores))]
    texts = {name: [*frame[name]] for name in names}
    optional = {
        name: [*frame[name]] if name in frame else [None] * len(frame)
        for name in ("alignment", *COUNT_NAMES, LINE)
    }
    for place in range(len(frame)):
        where = f"row {place}"
        new = _Row(
            encoded(texts["source"][place], f"{where}, source"),
            encoded(texts["target"][place], f"{where}, target"),
            [finite_number(texts[name][place], f"{where}, {name}") for name in names[2:]],
            _optional_text(optional["alignment"][place], f"{where}, alignment"),
            _known_counts([optional[name][place] for name in COUNT_NAMES], where),
        )
        line = optional[LINE][place]
        if not new.source.strip(BLANKS):
            raise UserError(f"{where}, source: found nothing, expected at least one word")
        yield new.made() if is_missing(line) else new.changed(_old_columns(line, where))


@dataclass
class _Row:
    """A row of the frame, with None for a missing alignment, and the known counts."""

    source: bytes
    target: bytes
    scores: list[float]
    alignment: bytes | None
    counts: list[float]

    def made(self) -> bytes:
        counts = _tokens([], self.counts)
        columns = [self.source, self.target, b" ".join(_tokens([], self.scores))]
        if self.alignment or counts:
            columns.append(self.alignment or b"")
        if counts:
            columns.append(b" ".join(counts))
        return b" ||| ".join(columns)

    def changed(self, columns: list[bytes]) -> bytes:
        """Replace the fields of an old row whose values have changed."""
        for place, text in ((SOURCE, self.source), (TARGET, self.target)):
            if columns[place].strip(BLANKS) != text:
                columns[place] = _in_place_of(columns[place], text)
        tokens = _tokens(score_tokens(columns[SCORES]), self.scores)
        columns[SCORES] = _with_tokens(columns[SCORES], tokens)
        if self.alignment is not None and alignment_of(columns) != self.alignment:
            _lengthen(columns, ALIGNMENT)
            columns[ALIGNMENT] = _in_place_of(columns[ALIGNMENT], self.alignment)
        known = [number for number in _counts(columns) if not math.isnan(number)]
        if self.counts and known != self.counts:
            _lengthen(columns, COUNTS)
            old = _count_tokens(columns)
            rest = old[len(COUNT_NAMES) :] if len(self.counts) == len(COUNT_NAMES) else []
            tokens = _tokens(old[: len(COUNT_NAMES)], self.counts)
            columns[COUNTS] = _with_tokens(columns[COUNTS], tokens + rest)
        return BAR.join(columns)


def _lengthen(columns: list[bytes], place: int) -> None:
    """Append empty columns to a row up to a place, keeping a carriage return at its end."""
    if len(columns) > place:
        return
    end = b"\r" if columns[-1].endswith(b"\r") else b""
    columns[-1] = columns[-1].removesuffix(end)
    if not columns[-1].endswith(b" "):
        columns[-1] += b" "
    columns += [b" "] * (place + 1 - len(columns))
    columns[-1] += end


def _in_place_of(old: bytes, text: bytes) -> bytes:
    """Replace the text between the blanks of a column, adding a blank at both ends of an empty one."""
    body = old.rstrip(_AFTER)
    words = body.lstrip(BLANKS)
    if words:
        return body[: -len(words)] + text + old[len(body) :]
    return b" " + text + b" " + (b"\r" if old.endswith(b"\r") else b"")


def _tokens(old: Sequence[bytes], numbers: Sequence[float]) -> list[bytes]:
    """Format numbers, each equal to the old one as it was written; a count may have more than 7 digits."""
    texts = [(b"%.15g" if each.is_integer() else b"%.7g") % each for each in numbers]
    kept = [
        token if to_number(token) == number else text
        for token, text, number in zip(old, texts, numbers, strict=False)
    ]
    return kept + texts[len(old) :]


def _with_tokens(column: bytes, tokens: Sequence[bytes]) -> bytes:
    """Replace the numbers of a column, unless they are the same."""
    if score_tokens(column) == list(tokens):
        return column
    return _in_place_of(column, b" ".join(tokens))


def _old_columns(line: object, where: str) -> list[bytes]:
    if not isinstance(line, str):
        raise UserError(f"{where}, {LINE}: found {line!r:.60}, expected a row as it was read")
    old = columns_of(line.encode("utf-8", "surrogateescape"))
    if len(old) <= SCORES or "\n" in line:
        raise UserError(f"{where}, {LINE}: found {line!r:.60}, expected a row as it was read")
    return old


def is_missing(value: object) -> bool:
    """Whether a cell is empty: None, NaN or pandas's NA."""
    import pandas as pd

    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _optional_text(value: object, where: str) -> bytes | None:
    return None if is_missing(value) else encoded(value, where)


def finite_number(value: object, where: str) -> float:
    """Convert a score, refusing anything but a finite number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{where}: found {value!r:.60}, expected a finite number")
    return number


def _known_counts(values: Sequence[object], where: str) -> list[float]:
    """The counts of a row, which a table has without names, so none may follow a missing one."""
    n_known = sum(not is_missing(value) for value in values)
    for name, value in zip(COUNT_NAMES, values[:n_known], strict=False):
        if is_missing(value):
            raise UserError(f"{where}: found no {name}, expected it before the other counts")
    return [
        finite_number(value, f"{where}, {name}")
        for name, value in zip(COUNT_NAMES, values[:n_known], strict=False)
    ]
