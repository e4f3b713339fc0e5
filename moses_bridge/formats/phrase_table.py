"""Reading and writing phrase tables row by row; their columns are those of `row_columns`.

Like Moses, this module splits a row at the bare bytes `|||` and its columns at blanks and tabs
(moses/TranslationModel/RuleTable/LoaderStandard.cpp:181-209).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.number_reader import are_plain_numbers
from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.row_columns import (
    ALIGNMENT,
    BAR,
    COUNTS,
    DIRECT_PROB,
    FEWEST_COLUMNS,
    INVERSE_PROB,
    JOINT_COUNT,
    SCORES,
    SOURCE,
    SOURCE_COUNT,
    TARGET,
    TARGET_COUNT,
    insert_scores,
)
from moses_bridge.formats.words import NOT_IN_NUMBERS, split_words, to_number

BLANKS = b" \t"
_EXPECTED_COUNTS = "count(target) count(source) count(source, target) in column 5"


@dataclass(frozen=True, slots=True)
class PhraseTableRow:
    """One row.

    Attributes:
        source: source phrase, words separated by one blank or more.
        scores: dense scores as written in the file (probabilities).
        alignment: the alignment column, empty if there is none.
        line: the whole row without its "\\n".
    """

    source: bytes
    target: bytes
    scores: tuple[float, ...]
    alignment: bytes
    line: bytes


@dataclass
class Block:
    """A run of rows, consisting of whole groups of one source each.

    Attributes:
        lines: the rows without "\\n".
        sources: their source phrases, stripped.
        targets: their target phrases, stripped.
        first_line: 1-based number of the first row.
    """

    lines: list[bytes] = field(default_factory=list)
    sources: list[bytes] = field(default_factory=list)
    targets: list[bytes] = field(default_factory=list)
    first_line: int = 1

    def __len__(self) -> int:
        return len(self.lines)


def read_rows(path: StrPath, n_scores: int | None = None) -> Iterator[PhraseTableRow]:
    """Yield the rows of a phrase table; InputError if Moses would misread one.

    n_scores None takes the number of scores of the first row.
    """
    for line_number, line in enumerate(read_lines(path), start=1):
        row = parse_row(line, path, line_number, n_scores)
        n_scores = len(row.scores)
        yield row


def parse_row(line: bytes, path: StrPath, line_number: int, n_scores: int | None) -> PhraseTableRow:
    """Parse and check one row; see `read_rows`."""
    columns = split_row(line, path, line_number)
    scores = _scores(columns[SCORES], path, line_number)
    agreed_number(len(scores), n_scores, path, line_number)
    alignment = alignment_of(columns)
    return PhraseTableRow(
        columns[SOURCE].strip(BLANKS), columns[TARGET].strip(BLANKS), scores, alignment, line
    )


def read_blocks(path: StrPath, min_rows: int, n_scores: int | None = None) -> Iterator[Block]:
    """Yield the table as runs of at least min_rows rows, cut only where the source changes.

    Scores must be finite numbers, but may be negative: tables of logarithms are read as well. n_scores None
    takes the number of scores of the first row.

    Raises:
        InputError: a row has fewer than three columns, an empty source, an unexpected number of scores or
            a score that is not a number, or it is hierarchical.
    """
    return blocks_of_rows(enumerate(read_lines(path), start=1), path, min_rows, n_scores)


def blocks_of_rows(
    rows: Iterable[tuple[int, bytes]],
    path: StrPath,
    min_rows: int,
    n_scores: int | None = None,
    are_probs: bool = False,
) -> Iterator[Block]:
    """Like `read_blocks`, for some rows of a table with their 1-based line numbers; `path` is for errors.

    With are_probs a negative score is an error too.
    """
    block, score_columns = Block(), list[bytes]()
    last_column, source = None, b""
    checked = partial(_checked_number, are_probs=are_probs)
    try:
        for line_number, line in rows:
            if not block.lines:
                block.first_line = line_number
            columns = line.split(BAR, FEWEST_COLUMNS)
            if columns[SOURCE] != last_column or len(columns) < FEWEST_COLUMNS:
                source, last_column = columns[SOURCE].strip(BLANKS), columns[SOURCE]
                if not source or source.endswith(b"]") or len(columns) < FEWEST_COLUMNS:
                    split_row(line, path, line_number)  # other rows pass all of its checks
                if len(block.lines) >= min_rows and source != block.sources[-1]:
                    n_scores = checked(score_columns, n_scores, path, block.first_line)
                    yield block
                    block, score_columns = Block(first_line=line_number), []
            block.lines.append(line)
            block.sources.append(source)
            block.targets.append(columns[TARGET].strip(BLANKS))
            score_columns.append(columns[SCORES])
    except InputError:
        checked(score_columns, n_scores, path, block.first_line)
        raise
    if block.lines:
        checked(score_columns, n_scores, path, block.first_line)
        yield block


def append_scores(line: bytes, scores: Sequence[float]) -> bytes:
    """Append dense scores to a row without its "\\n", keeping every other byte.

    The scores are positive, finite numbers: probabilities, since Moses takes their logarithm.
    """
    end = _scores_end(line)
    added = b"".join(b" " + format_score(score) for score in scores)
    return line[:end] + added + line[end:]


def append_score_columns(lines: Sequence[bytes], scores: NDArray[np.float64]) -> bytes:
    """Rows of at least three columns, and dense scores after theirs as by `append_scores`, each with "\\n".

    The scores are finite numbers, *Shape:* (n_rows, n_columns).
    """
    if not np.isfinite(scores).all():
        raise ValueError("scores of a phrase table must be finite")
    n_rows, n_columns = scores.shape
    template = (b" %.7g" * n_columns + b"\n") * n_rows
    added: bytes = template % tuple(scores.ravel().tolist())
    return insert_scores(_joined(lines), added)


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"".join([b"\n".join(lines), b"\n"]) if lines else b""


def without_last_scores(line: bytes, n_scores: int) -> bytes:
    """Remove the last n_scores dense scores of a row: the reverse of `append_score_columns`."""
    end = _scores_end(line)
    body = line[:end]
    for _ in range(n_scores):
        body = body[: max(body.rfind(b" "), body.rfind(b"\t"))].rstrip(BLANKS)
    return body + line[end:]


def _scores_end(line: bytes) -> int:
    start = line.find(BAR, line.find(BAR) + len(BAR)) + len(BAR)
    end = line.find(BAR, start)
    body = (line if end < 0 else line[:end]).rstrip(b" \t\r")
    return max(len(body), start)


def format_score(score: float) -> bytes:
    """Format with seven significant digits, enough for the float32 used by Moses."""
    if not (math.isfinite(score) and score > 0):
        raise ValueError(f"a score of a phrase table must be positive and finite, not {score}")
    return b"%.7g" % score


def columns_of(line: bytes) -> list[bytes]:
    """The unchecked columns of a row, unchanged and with their blanks."""
    return line.split(BAR)


def n_columns_of(line: bytes) -> int:
    """Count the columns of a row."""
    return line.count(BAR) + 1


def source_column(line: bytes) -> bytes:
    """The first column of a row with its blanks; the whole row without "|||"."""
    return line.partition(BAR)[0]


def split_row(line: bytes, path: StrPath, line_number: int) -> list[bytes]:
    """Split a row into its columns, at least three.

    Raises:
        InputError: there are fewer, the source is empty, or the row belongs to a hierarchical table.
    """
    columns = columns_of(line)
    if len(columns) < FEWEST_COLUMNS:
        found = f"{len(columns)} column{'s' if len(columns) > 1 else ''}"
        expected = "at least 3 columns: source ||| target ||| scores"
        raise InputError(path, line_number, found, expected, "Remove or mend the row")
    source = columns[SOURCE].strip(BLANKS)
    if not source:
        raise InputError(
            path, line_number, "an empty source phrase", "at least one word", "Remove the row"
        )
    refuse_rule(columns, path, line_number)
    return columns


def refuse_rule(columns: Sequence[bytes], path: StrPath, line_number: int) -> None:
    """Refuse (InputError) a row of a hierarchical table: Hiero's `[X][X] a [X] ||| ...` or `[X] ||| ...`."""
    source = columns[SOURCE].strip(BLANKS)
    if source.endswith(b"]") and _is_hierarchical(source, columns[TARGET]):
        found = f"a hierarchical rule (label {shown(split_words(source)[-1])})"
        expected = "a phrase pair"
        raise InputError(path, line_number, found, expected, "Only phrase-based tables can be read")


def check_row(
    line: bytes, path: StrPath, line_number: int, n_scores: int | None, are_probs: bool = False
) -> int:
    """Count a row's dense scores; errors as of `read_blocks`, and with are_probs of a negative score."""
    columns = split_row(line, path, line_number)
    n_found = _n_numbers(columns[SCORES], path, line_number, are_probs)
    return agreed_number(n_found, n_scores, path, line_number)


def in_brackets(word: bytes) -> bool:
    """Whether Moses reads a word as a label or a non-terminal (moses/Phrase.cpp:187-219)."""
    return word.startswith(b"[") and word.endswith(b"]") and len(word) > 1


def _is_hierarchical(source: bytes, target_column: bytes) -> bool:
    """Rules end in a label on both sides, `[X]` or a syntactic one; Hiero's own format begins with it."""
    label, target_words = split_words(source)[-1], split_words(target_column)
    ends_in_label = bool(target_words) and in_brackets(target_words[-1])
    return in_brackets(label) and (label == b"[X]" or (ends_in_label and b"][" in source))


def agreed_number(found: int, n_scores: int | None, path: StrPath, line_number: int) -> int:
    """Check that a row has as many scores as the others, and return their number."""
    if found == 0 or found != (n_scores or found):
        scores = f"{found} score{'s' if found != 1 else ''}"
        hint = "All rows of a table have the same number of scores"
        raise InputError(path, line_number, scores, f"{n_scores or 'at least 1'}", hint)
    return found


def _checked_number(
    columns: Sequence[bytes], n_scores: int | None, path: StrPath, first_line: int, are_probs: bool
) -> int | None:
    """Check that all rows have equally many scores, all finite numbers, and return their number."""
    joined = _joined(columns)
    is_signed = b" -" in joined or b"\n-" in joined or joined.startswith(b"-")
    is_plain = n_scores is not None and are_plain_numbers(joined, n_scores)
    if is_plain and not (are_probs and is_signed):
        return n_scores
    for line_number, column in enumerate(columns, start=first_line):
        n_found = _n_numbers(column, path, line_number, are_probs)
        if n_found != n_scores:
            n_scores = agreed_number(n_found, n_scores, path, line_number)
    return n_scores


def _n_numbers(column: bytes, path: StrPath, line_number: int, are_probs: bool) -> int:
    """Count the scores of a column, checking that all are finite numbers, and with are_probs from 0 on."""
    least = 0.0 if are_probs else -math.inf
    scores = _plain_scores(column)
    if scores is not None and min(scores, default=0.0) >= least:
        return len(scores)
    tokens = score_tokens(column)
    for token in tokens:
        number = to_number(token)
        if not math.isfinite(number) or number < least:
            raise _score_fault(token, path, line_number)
    return len(tokens)


def _scores(column: bytes, path: StrPath, line_number: int) -> tuple[float, ...]:
    scores = _plain_scores(column)
    if scores and min(scores) >= 0:
        return scores
    return tuple(parse_score(token, path, line_number) for token in score_tokens(column))


def _plain_scores(column: bytes) -> tuple[float, ...] | None:
    """The finite numbers of a column; None if it may have a text accepted by float() but not by Moses."""
    try:
        scores = tuple(map(float, column.split()))
    except ValueError:
        return None
    is_plain = len(column.translate(None, NOT_IN_NUMBERS)) == len(column)
    return scores if is_plain and math.isfinite(sum(scores)) else None


def score_tokens(column: bytes) -> list[bytes]:
    """The texts of the scores, ignoring a carriage return at the end of the row."""
    return split_words(column.rstrip(b"\r"))


def parse_score(token: bytes, path: StrPath, line_number: int) -> float:
    """Parse one dense score; InputError if it is not a finite number of 0 or more."""
    score = to_number(token)
    if not 0 <= score < math.inf:
        raise _score_fault(token, path, line_number)
    return score


def _score_fault(token: bytes, path: StrPath, line_number: int) -> InputError:
    found = f"the score {shown(token)}"
    expected = "a probability"
    return InputError(path, line_number, found, expected, "Moses takes the logarithm of each score")


def alignment_column(line: bytes) -> bytes:
    """The word links of a row, `0-0 1-2`; empty if it has none."""
    return alignment_of(line.split(BAR, ALIGNMENT + 1))


def alignment_of(columns: Sequence[bytes]) -> bytes:
    """The word links among the columns of a row; empty if it has none."""
    return columns[ALIGNMENT].strip() if len(columns) > ALIGNMENT else b""


def joint_count_or_zero(line: bytes) -> float:
    """The count of a phrase pair in the training data; 0 if the row lacks it."""
    columns = line.split(BAR, COUNTS + 1)
    counts = columns[COUNTS].split() if len(columns) > COUNTS else []
    try:
        return float(counts[JOINT_COUNT])
    except (IndexError, ValueError):
        return 0.0


def has_counts(line: bytes) -> bool:
    """Whether a row has a non-empty column of counts."""
    columns = line.split(BAR, COUNTS + 1)
    return len(columns) > COUNTS and bool(columns[COUNTS].strip())


def _number_at(
    column: int, place: int, expected: str, line: bytes, path: StrPath, line_number: int
) -> float:
    columns = line.split(BAR)
    tokens = score_tokens(columns[column]) if len(columns) > column else []
    number = to_number(tokens[place]) if len(tokens) > place else math.nan
    if not 0 <= number < math.inf:
        found = b" ".join(tokens).decode("utf-8", "replace")
        raise InputError(path, line_number, repr(found), expected)
    return number


# Counts in the training data and two of Moses's four scores, of a row, its table and its number from 1. An
# InputError says that the row has no such number.
target_count = partial(_number_at, COUNTS, TARGET_COUNT, _EXPECTED_COUNTS)
source_count = partial(_number_at, COUNTS, SOURCE_COUNT, _EXPECTED_COUNTS)
joint_count = partial(_number_at, COUNTS, JOINT_COUNT, _EXPECTED_COUNTS)
inverse_prob = partial(_number_at, SCORES, INVERSE_PROB, "p(source | target) as the first score")
direct_prob = partial(_number_at, SCORES, DIRECT_PROB, "p(target | source) as the third score")


def pair_counts(line: bytes, path: StrPath, line_number: int) -> tuple[float, float, float]:
    """The counts of target, source and pair in the training data: the numbers of column 5."""
    at = (line, path, line_number)
    return target_count(*at), source_count(*at), joint_count(*at)
