"""Reading the text files of Moses's tuning programs: features.dat, scores.dat and init.opt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.number_reader import plain_numbers
from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath, read_lines

FEATURES_BEGIN = b"FEATURES_TXT_BEGIN_0"
FEATURES_END = b"FEATURES_TXT_END_0"
SCORES_BEGIN = b"SCORES_TXT_BEGIN_0"
SCORES_END = b"SCORES_TXT_END_0"
MAX_DIGITS = 9
SparseNumber = tuple[int, str, float]


@dataclass(frozen=True)
class DataBlock:
    """The rows of one sentence.

    Attributes:
        names: the feature names, or ("BLEU",).
        values: *Shape:* (n_rows, n_columns).
        line_number: 1-based line of the header.
        sparse: row, name and value of the sparse features after the columns.
    """

    sentence_id: int
    names: tuple[str, ...]
    values: NDArray[np.float64]
    line_number: int
    sparse: tuple[SparseNumber, ...] = ()


def read_features(path: StrPath) -> Iterator[DataBlock]:
    """Yield the sentences of a features.dat; InputError if a part is not as Moses writes it."""
    return _read_blocks(path, FEATURES_BEGIN, FEATURES_END)


def read_scores(path: StrPath) -> Iterator[DataBlock]:
    """Yield the sentences of a scores.dat: four times matches and totals, then the reference length.

    InputError if a part is not as Moses writes it.
    """
    return _read_blocks(path, SCORES_BEGIN, SCORES_END)


def _read_blocks(path: StrPath, begin: bytes, end: bytes) -> Iterator[DataBlock]:
    lines = read_lines(path)
    header_number = 1
    for header in lines:
        sentence_id, n_rows, n_columns, names = _header(header, begin, path, header_number)
        rows = list(islice(lines, n_rows))
        values, sparse = _rows(rows, n_columns, path, header_number + 1)
        closing = next(lines, b"")
        end_number = header_number + len(rows) + 1
        if len(rows) < n_rows or closing.strip() != end:
            found = shown(closing) if closing else "the end of the file"
            raise InputError(path, end_number, found, f"{end.decode()} after {n_rows} rows")
        yield DataBlock(sentence_id, names, values, header_number, sparse)
        header_number = end_number + 1


def _rows(
    rows: Sequence[bytes], n_columns: int, path: StrPath, first_number: int
) -> tuple[NDArray[np.float64], tuple[SparseNumber, ...]]:
    """Parse rows of numbers, *Shape:* (n_rows, n_columns), and the sparse features after them."""
    values = plain_numbers(b"\n".join([*rows, b""]), n_columns)
    if values is not None:
        return values, ()
    tokens = [(number, row.split()) for number, row in enumerate(rows, first_number)]
    sparse = tuple(_cut_sparse(tokens, n_columns, path))
    checked = [_numbers(texts, n_columns, path, number) for number, texts in tokens]
    return np.array(checked, np.float64).reshape(len(rows), n_columns), sparse


def _cut_sparse(
    rows: Sequence[tuple[int, list[bytes]]], n_columns: int, path: StrPath
) -> Iterator[SparseNumber]:
    """Remove the NAME=VALUE after the columns from the rows, yielding row, name and value of each."""
    for place, (number, tokens) in enumerate(rows):
        if len(tokens) > n_columns and all(b"=" in token for token in tokens[n_columns:]):
            for token in tokens[n_columns:]:
                name, _, value = token.rpartition(b"=")
                (amount,) = _numbers([value], 1, path, number)
                yield place, name.decode("utf-8", "surrogateescape"), amount
            del tokens[n_columns:]


def _header(
    line: bytes, begin: bytes, path: StrPath, line_number: int
) -> tuple[int, int, int, tuple[str, ...]]:
    tokens = line.split()
    counts = tokens[1:4]
    if (
        len(counts) < 3
        or tokens[0] != begin
        or not all(count.isdigit() and len(count) <= MAX_DIGITS for count in counts)
    ):
        found = shown(line)
        expected = f"{begin.decode()} SENTENCE ROWS COLUMNS NAMES"
        hint = "Only the text form can be read, not the binary one"
        raise InputError(path, line_number, found, expected, hint)
    names = tuple(token.decode("utf-8", "surrogateescape") for token in tokens[4:])
    return int(tokens[1]), int(tokens[2]), int(tokens[3]), names


def _numbers(
    tokens: Sequence[bytes], n_columns: int, path: StrPath, line_number: int
) -> list[float]:
    if len(tokens) != n_columns:
        raise InputError(path, line_number, f"{len(tokens)} values", f"{n_columns}")
    try:
        values = [float(token) for token in tokens]
    except ValueError as error:
        raise InputError(path, line_number, str(error), "numbers") from error
    if not all(map(math.isfinite, values)):
        raise InputError(path, line_number, "a value that is not finite", "finite numbers")
    return values


def read_init_opt(path: StrPath) -> tuple[NDArray[np.float64], ...]:
    """Read the start point and the two corners of the box for random starts: three arrays.

    Raises:
        InputError: there are not three lines of equally many numbers.
    """
    lines = [line for line in read_lines(path) if line.strip()]
    if len(lines) != 3:
        raise InputError(path, None, f"{len(lines)} lines", "3: start, minimum, maximum")
    n_columns = len(lines[0].split())
    return tuple(
        np.array(_numbers(line.split(), n_columns, path, number))
        for number, line in enumerate(lines, 1)
    )
