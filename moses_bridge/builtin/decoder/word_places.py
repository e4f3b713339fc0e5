"""The source place of each target word, from the word links of the phrase table.

The rules are those of Devlin et al. (2014), section 2.1. A word with one link has the linked source word, one
with several links the middle one, or the lower of two middle ones. A word without a link has that of the
nearest linked word, the right one of two equally near. If no word is linked, target places are scaled to the
length of the source. `</s>` has the place after the last source word, and a copied word its own source word.

During search, the nearest linked word is found within the phrase, and in a phrase without links places are
scaled to the source phrase. The values in n-best lists use the links of the whole translation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.bytes_by_name import MINUS
from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.compiled.number_reader import read_whole
from moses_bridge.base.compiled.scanning import next_token
from moses_bridge.base.errors import InputError, shown
from moses_bridge.builtin.decoder.loaded_table import LoadedTable, TableRows
from moses_bridge.builtin.decoder.options import UNKNOWN_ROW, Options
from moses_bridge.builtin.decoder.source_trie import phrase_lengths

NO_LINK = -1
NO_ROW = -1
TARGET_SHIFT = 32  # a link as one number: target << 32 | source


class WordPlaces(NamedTuple):
    """The source places of the target words of options, (n_words,), counted from 0 in the sentence."""

    linked: NDArray[np.int32]  # the middle one of the word's links, NO_LINK if it has none
    in_phrase: NDArray[np.int32]  # the place used during search


def check_links(table: LoadedTable) -> None:
    """Check that each phrase table has word links, all of them within their phrase pairs.

    Raises:
        InputError: a table has no links, or one is malformed or out of range.
    """
    rows = table.rows
    for file, first, end in zip(table.files, table.first_rows, table.first_rows[1:], strict=False):
        _check_any_link(rows, file.path, int(first), int(end))
    row, start, end = _first_bad_link(rows, phrase_lengths(table.trie))
    if row == NO_ROW:
        return
    number = int(np.searchsorted(table.first_rows, row, "right")) - 1
    n_source = int(phrase_lengths(table.trie)[rows.nodes[row]])
    n_target = int(rows.word_starts[row + 1] - rows.word_starts[row])
    raise InputError(
        table.files[number].path,
        row - int(table.first_rows[number]) + 1,
        f"the link {shown(rows.links[start:end].tobytes())}",
        f"SOURCE-TARGET within {n_source} source and {n_target} target words, counted from 0",
        "`moses-bridge check` finds all such rows",
    )


def _check_any_link(rows: TableRows, path: Path, first: int, end: int) -> None:
    """Check that there is a link in a table with target words."""
    has_words = rows.word_starts[first] < rows.word_starts[end]
    if has_words and MINUS not in rows.links[rows.link_starts[first] : rows.link_starts[end]]:
        raise InputError(
            path,
            1,
            "no word links",
            "links as 0-0 1-2 in column 4",
            "A neural feature that sees the source needs them: build the table with word links, or "
            "leave the feature out",
        )


@compiled
def _first_bad_link(rows: TableRows, source_lengths: Any) -> tuple[int, int, int]:
    """The row of the first bad link, and its start and end in `links`; NO_ROW if all are good."""
    for row in range(len(rows.nodes)):
        n_target = rows.word_starts[row + 1] - rows.word_starts[row]
        last = rows.link_starts[row + 1]
        start, end = next_token(rows.links, rows.link_starts[row], last)
        while start < end:
            source, target = _read_link(rows.links, start, end)
            if not (0 <= source < source_lengths[rows.nodes[row]] and 0 <= target < n_target):
                return row, start, end
            start, end = next_token(rows.links, end, last)
    return NO_ROW, 0, 0


@inner
def _read_link(text: Any, start: int, end: int) -> tuple[int, int]:
    """Both numbers of a link; -1 for a malformed one."""
    source, dash = read_whole(text, start, end)
    if dash >= end or text[dash] != MINUS:
        return -1, -1
    target, after = read_whole(text, dash + 1, end)
    return source, target if after == end else -1


@compiled
def option_places(rows: TableRows, options: Options) -> WordPlaces:
    """The places of all words of a sentence's options; the rows must be accepted by `check_links`."""
    n_words = len(options.words)
    places = WordPlaces(np.full(n_words, NO_LINK, np.int32), np.empty(n_words, np.int32))
    for option in range(len(options.rows)):
        first, last = options.word_starts[option], options.word_starts[option + 1]
        row, start = options.rows[option], options.starts[option]
        if row == UNKNOWN_ROW:
            places.linked[first:last] = start
        elif row >= 0:  # others are given translations, without links
            _fill_linked(row, start, rows, places.linked[first:last])
        _fill_places(
            places.linked[first:last], start, options.ends[option] - start,
            places.in_phrase[first:last],
        )  # fmt: skip
    return places


@inner_maker
def _fill_linked(row: int, start: int, rows: TableRows, out: Any) -> None:
    """Fill `out` with the middle link of each word of a row, as a place in the sentence."""
    begin, last = rows.link_starts[row], rows.link_starts[row + 1]
    links = np.empty(last - begin, np.int64)
    n_links = 0
    token, end = next_token(rows.links, begin, last)
    while token < end:
        source, target = _read_link(rows.links, token, end)
        _insert((np.int64(target) << TARGET_SHIFT) | np.int64(source), links, n_links)
        n_links += 1
        token, end = next_token(rows.links, end, last)
    first = 0
    while first < n_links:
        target, end_of_word = links[first] >> TARGET_SHIFT, first + 1
        while end_of_word < n_links and links[end_of_word] >> TARGET_SHIFT == target:
            end_of_word += 1
        middle = links[(first + end_of_word - 1) // 2]
        out[target] = start + (middle & ((1 << TARGET_SHIFT) - 1))
        first = end_of_word


@inner
def _insert(link: int, links: Any, n_links: int) -> None:
    i = n_links
    while i > 0 and links[i - 1] > link:
        links[i] = links[i - 1]
        i -= 1
    links[i] = link


@inner
def _fill_places(linked: Any, start: int, n_source: int, out: Any) -> None:
    """Fill the place of each word of a phrase or sentence, from the places of its linked words."""
    n_words = len(linked)
    for i in range(n_words):
        nearest = _nearest_linked(linked, i)
        out[i] = start + i * n_source // n_words if nearest == NO_LINK else linked[nearest]


@inner
def _nearest_linked(linked: Any, i: int) -> int:
    """The nearest linked word, the right one of two; NO_LINK if there is none."""
    for distance in range(len(linked)):
        if i + distance < len(linked) and linked[i + distance] != NO_LINK:
            return i + distance
        if i >= distance and linked[i - distance] != NO_LINK:
            return i - distance
    return NO_LINK


@compiled
def path_places(phrase_starts: Any, phrases: Any, linked: Any, options: Options) -> Any:
    """The places of all words of whole translations, each with its `</s>`, *Shape:* (n_ngrams,) int32.

    phrase_starts, (n_paths + 1,), are indices of `phrases`, the paths' options; `linked` is from
    `option_places`.
    """
    n_paths, n_words = len(phrase_starts) - 1, 0
    for option in phrases:
        n_words += options.word_starts[option + 1] - options.word_starts[option]
    of_path, places = np.empty(n_words + n_paths, np.int32), np.empty(n_words + n_paths, np.int32)
    first = 0
    for i in range(n_paths):
        end = first
        for option in phrases[phrase_starts[i] : phrase_starts[i + 1]]:
            for word in range(options.word_starts[option], options.word_starts[option + 1]):
                of_path[end] = linked[word]
                end += 1
        _fill_places(of_path[first:end], 0, options.n_words, places[first:end])
        places[end] = options.n_words
        first = end + 1
    return places
