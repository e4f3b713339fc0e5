"""Rows of a phrase table as numbers, read by compiled code a piece of the table at a time.

A record is a run of uint32: the row's number, the words of both sides (source in the low half, target in the
high one), the joint count as a float64 in two halves, the numbers of the source's words, and those of the
target's. With reversed sides a record's source is the target of the row.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import BLANK, TAB
from moses_bridge.base.compiled.hash_table import hash_next, hash_number
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.lexicon import LexiconTables, add_word
from moses_bridge.base.compiled.number_reader import (
    LARGEST_EXPONENT,
    NO_NUMBER,
    is_exact,
    read_number,
    value_of,
)
from moses_bridge.base.compiled.scanning import line_end, next_token, same_bytes
from moses_bridge.formats.row_columns import (
    COUNTS,
    DIRECT_PROB,
    JOINT_COUNT,
    RowColumns,
    column_after_scores,
    find_columns,
    has_scores,
)

HEADER = 4
HALF = 16
LOW_HALF = 2**HALF - 1
CLOSING_BRACKET = ord("]")
N_NUMBERS, N_SEEN = 0, 1
NO_RECORD = -1


class Wanted(NamedTuple):
    """Which rows are kept: sides of at most max_words, a third score of min_prob or more, of n_scores.

    With a min_prob of 0 the score is not read. With counts the joint count is read, and rows with a count of
    0 are left out. With reversed sides targets are sources, and sources targets.
    """

    n_scores: int
    max_words: int
    min_prob: float
    with_counts: bool
    reverse_sides: bool


class Given(NamedTuple):
    """The caller's findings on the first row to read, if it is not a plain one; it has been checked."""

    is_given: bool
    prob: float
    joint_count: float


NOT_GIVEN = Given(False, 0.0, 0.0)


@njit(nogil=True)
def read_records(
    text: NDArray[np.uint8],
    at: int,
    given: Given,
    wanted: Wanted,
    lexicon: LexiconTables,
    records: NDArray[np.uint32],
    state: NDArray[np.int64],
) -> int:
    """Append the records of whole rows, each with its "\\n", as far as they are plain.

    The lexicon, which gets the new words, has room for those of the text, `records` for len(text) numbers
    more. The state is the numbers in `records`, and rows seen; both are updated.

    Returns:
        Start of the first row that is not plain, for the caller to read; len(text) if there is none.
    """
    last_start = last_end = at
    last_record = NO_RECORD
    while at < len(text):
        row = find_columns(text, at, line_end(text, at))
        source, source_end, target, target_end = _sides(row, wanted.reverse_sides)
        n_source = _n_tokens(text, source, source_end, wanted.max_words)
        n_target = _n_tokens(text, target, target_end, wanted.max_words)
        is_short = n_source <= wanted.max_words and n_target <= wanted.max_words
        found = given if given.is_given else _numbers(text, row, wanted, is_short)
        if not found.is_given:
            return at
        given = Given(False, 0.0, 0.0)
        if is_short and _is_wanted(found, wanted):
            record = state[N_NUMBERS]
            _set_header(records, record, state[N_SEEN], n_source, n_target, found.joint_count)
            length = source_end - source
            is_same = last_record != NO_RECORD and length == last_end - last_start
            if is_same and same_bytes(text, source, text, last_start, length):
                _copy(records, last_record + HEADER, record + HEADER, n_source)
            else:
                _add_words(text, source, source_end, lexicon, records, record + HEADER)
            after = record + HEADER + n_source
            _add_words(text, target, target_end, lexicon, records, after)
            last_start, last_end, last_record = source, source_end, record
            state[N_NUMBERS] = after + n_target
        state[N_SEEN] += 1
        at = row.end + 1
    return int(at)


@inner
def _sides(row: RowColumns, reverse_sides: bool) -> tuple[int, int, int, int]:
    if reverse_sides:
        return row.target, row.target_end, row.source, row.source_end
    return row.source, row.source_end, row.target, row.target_end


@inner
def _numbers(text: Any, row: RowColumns, wanted: Wanted, is_short: bool) -> Given:
    """The numbers of a row; not given if it is not plain."""
    nothing, prob, count = Given(False, 0.0, 0.0), 0.0, 0.0
    if not has_scores(row) or not _is_plain_source(text, row.source, row.source_end):
        return nothing
    third = _direct_prob(text, row.scores, row.scores_end, wanted.n_scores)
    if third == -math.inf:
        return nothing
    if is_short and wanted.min_prob > 0:
        if math.isnan(third):
            return nothing
        prob = third
    if is_short and wanted.with_counts and prob >= wanted.min_prob:
        count = _joint_count(text, row)
        if math.isnan(count):
            return nothing
    return Given(True, prob, count)


@inner
def _is_wanted(found: Given, wanted: Wanted) -> bool:
    return found.prob >= wanted.min_prob and (found.joint_count != 0.0 or not wanted.with_counts)


@inner
def _set_header(
    records: Any, record: int, row: int, n_source: int, n_target: int, count: float
) -> None:
    bits = np.float64(count).view(np.uint64)
    records[record] = row
    records[record + 1] = n_source | (n_target << HALF)
    records[record + 2] = np.uint32(bits & np.uint64(0xFFFFFFFF))
    records[record + 3] = np.uint32(bits >> np.uint64(32))


@inner
def _copy(records: Any, first: int, second: int, n_words: int) -> None:
    for word in range(n_words):
        records[second + word] = records[first + word]


@inner
def _is_plain_source(text: Any, start: int, end: int) -> bool:
    """Whether a source has a word and does not end in a bracket, as rules do."""
    while end > start and (text[end - 1] == BLANK or text[end - 1] == TAB):
        end -= 1
    return bool(end > start and text[end - 1] != CLOSING_BRACKET)


@inner
def _direct_prob(text: Any, start: int, end: int, n_scores: int) -> float:
    """The third score; NaN if it cannot be read exactly, -inf if the scores are not plain."""
    third, at, n_found = math.nan, _skip_blanks(text, start, end), 0
    while at < end:
        number = read_number(text, at, end)
        is_finite = number.n_dropped == 0 and number.exponent <= LARGEST_EXPONENT
        if number.end == NO_NUMBER or not is_finite:
            return -math.inf
        if number.end < end and text[number.end] != BLANK:
            return -math.inf
        if n_found == DIRECT_PROB and is_exact(number) and not number.is_negative:
            third = value_of(number)
        n_found += 1
        at = _skip_blanks(text, number.end, end)
    return third if n_found == n_scores else -math.inf


@inner
def _joint_count(text: Any, row: RowColumns) -> float:
    """The joint count of a row; NaN if it cannot be read exactly."""
    counts, counts_end = column_after_scores(text, row, COUNTS)
    token = token_end = counts
    for _ in range(JOINT_COUNT + 1):
        token, token_end = next_token(text, token_end, counts_end)
    number = read_number(text, token, token_end)
    if number.end != token_end or number.is_negative or not is_exact(number):
        return math.nan
    return float(value_of(number))


@inner
def _skip_blanks(text: Any, at: int, end: int) -> int:
    while at < end and text[at] == BLANK:
        at += 1
    return int(at)


@inner
def _n_tokens(text: Any, start: int, end: int, most: int) -> int:
    """Words of a phrase, counted up to one more than `most`."""
    n_tokens = 0
    token, at = next_token(text, start, end)
    while token < at and n_tokens <= most:
        n_tokens += 1
        token, at = next_token(text, at, end)
    return n_tokens


@inner
def _add_words(
    text: Any, start: int, end: int, lexicon: LexiconTables, records: Any, first: int
) -> None:
    token, at = next_token(text, start, end)
    while token < at:
        records[first] = add_word(lexicon, text, token, at)
        first += 1
        token, at = next_token(text, at, end)


@inner
def source_words(records: Any, record: int) -> int:
    """The number of words in the source of a record."""
    return int(records[record + 1] & np.uint32(LOW_HALF))


@inner
def target_words(records: Any, record: int) -> int:
    """The number of words in the target of a record."""
    return int(records[record + 1] >> np.uint32(HALF))


@inner
def joint_count_of(records: Any, record: int) -> float:
    """The joint count of a record."""
    high = np.uint64(records[record + 3]) << np.uint64(32)
    return float(np.uint64(high | np.uint64(records[record + 2])).view(np.float64))


@inner
def hash_words(records: Any, first: int, n_words: int) -> Any:
    """A hash of a phrase."""
    code = hash_number(n_words + 1)
    for word in range(first, first + n_words):
        code = hash_next(code, records[word])
    return code
