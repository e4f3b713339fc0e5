"""N-best lists whose lines all look alike, as those without sparse features do, read by compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.compiled.inner import inner
from moses_bridge.compiled.kept_code import njit
from moses_bridge.compiled.number_reader import is_exact, read_number, value_of
from moses_bridge.compiled.scanning import line_end, next_token, same_bytes
from moses_bridge.formats.nbest_fields import whole_number, without_blanks
from moses_bridge.formats.row_columns import BAR_LENGTH, column_end


class PlainList(NamedTuple):
    """The lines of a list.

    Attributes:
        sentence_ids: (n_lines,) int64.
        text_starts, text_ends: (n_lines,) int64, where the words of each are.
        values: (n_lines, n_values) float64.
    """

    sentence_ids: NDArray[np.int64]
    text_starts: NDArray[np.int64]
    text_ends: NDArray[np.int64]
    values: NDArray[np.float64]


def read_plain_list(data: bytes, tokens: Sequence[bytes], n_sentences: int) -> PlainList | None:
    """The lines of a list; None if one looks otherwise, or has a fault.

    A value is the float that Python makes of it.

    Args:
        data: lines, each ended by a newline.
        tokens: the tokens of the feature field of its first line.
        n_sentences: all ids are below this number.
    """
    labels = [token if token.endswith(b"=") else b"" for token in tokens]
    ends = np.cumsum([len(label) for label in labels], dtype=np.int64)
    n_lines, n_values = data.count(b"\n"), labels.count(b"")
    ids, starts, text_ends = np.empty((3, n_lines), np.int64)
    found = PlainList(ids, starts, text_ends, np.empty((n_lines, n_values)))
    text = np.frombuffer(data, np.uint8)
    is_plain = _fill(text, np.frombuffer(b"".join(labels), np.uint8), ends, n_sentences, found)
    return found if is_plain else None


@njit()
def _fill(data: Any, labels: Any, label_ends: Any, n_sentences: int, found: PlainList) -> bool:
    """Fill the arrays; return whether all lines are plain."""
    start = 0
    for line in range(len(found.sentence_ids)):
        end = line_end(data, start)
        id_end = column_end(data, start, end)
        text = min(id_end + BAR_LENGTH, end)
        text_end = column_end(data, text, end)
        features = min(text_end + BAR_LENGTH, end)
        features_end = column_end(data, features, end)
        number = whole_number(data, start, id_end)
        if features_end == end or not 0 <= number < n_sentences:
            return False
        if not _read_values(data, features, features_end, labels, label_ends, found.values[line]):
            return False
        found.sentence_ids[line] = number
        found.text_starts[line], found.text_ends[line] = without_blanks(data, text, text_end)
        start = end + 1
    return True


@inner
def _read_values(
    data: Any, position: int, end: int, labels: Any, label_ends: Any, values: Any
) -> bool:
    """Fill the values of a line; return whether it has the labels and exact numbers at their places."""
    n_values = label = 0
    for token in range(len(label_ends)):
        start, position = next_token(data, position, end)
        length = label_ends[token] - label
        if length:
            if position - start != length or not same_bytes(data, start, labels, label, length):
                return False
        else:
            number = read_number(data, start, position)
            if start == position or number.end != position or not is_exact(number):
                return False
            values[n_values] = value_of(number)
            n_values += 1
        label = label_ends[token]
    start, position = next_token(data, position, end)
    return bool(start == position)
