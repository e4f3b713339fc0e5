"""The edits of TER (Snover et al. 2006), compiled, as sacreBLEU counts them (Post 2018).

Edits are insertions, deletions and substitutions of words, and shifts of words to another place. The cheapest
shifts are not known, so they are sought greedily, as Tercom does: of all shifts to a place where the reference
has the same words the one that saves most is made, until none saves anything.

sacreBLEU's limits are part of the number: a shift has 10 words and goes 50 words far at most, 1000 shifts are
tried, and the edit distance looks at 25 cells on either side of the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.notice import CompilationNotice

COMPILING = CompilationNotice("the edits of TER (some seconds)")
MOST_SHIFTED_WORDS, FARTHEST_SHIFT, MOST_SHIFTS = 10, 50, 1000
BEAM = 25
UNREACHED = 1 << 40
KEEP, SUBSTITUTE, DELETE, INSERT = range(4)  # what is done to a word of the hypothesis
SAVED, LENGTH, START, TARGET = range(4)  # of a shift

_tokens = TercomTokenizer()


def ter_statistics(hypothesis: str, references: Sequence[str]) -> tuple[int, float]:
    """The fewest edits of a hypothesis to any of its references, and the mean length of these in words."""
    words = _tokens(hypothesis.rstrip()).split()
    others = [_tokens(text.rstrip()).split() for text in references]
    numbers: dict[str, int] = {}
    ours = _numbered(words, numbers)
    with COMPILING:
        edits = min(int(_count_edits(ours, _numbered(other, numbers))) for other in others)
    return edits, sum(map(len, others)) / len(others)


def _numbered(words: Sequence[str], numbers: dict[str, int]) -> NDArray[np.int64]:
    return np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64)


@njit(nogil=True)
def _count_edits(hypothesis, reference):  # type: ignore[no-untyped-def]
    """Shifts, and the edit distance after them."""
    n_words, n_others = len(hypothesis), len(reference)
    if n_others == 0:
        return n_words
    words, moved = np.empty(n_words, np.int64), np.empty(n_words, np.int64)
    for place in range(n_words):
        words[place] = hypothesis[place]
    costs = np.empty((n_words + 1, n_others + 1), np.int64)
    edits = np.empty((n_words + 1, n_others + 1), np.uint8)
    for column in range(n_others + 1):
        costs[0, column], edits[0, column] = column, INSERT
    rows = np.empty((2, n_others + 1), np.int64)
    row_edits = np.empty(n_others + 1, np.uint8)
    places = np.empty(n_others, np.int64)
    is_wrong, is_missed = np.empty(n_words, np.int64), np.empty(n_others, np.int64)
    shift = np.empty(4, np.int64)
    n_shifts = n_tried = 0
    while True:
        for row in range(n_words):
            _fill_row(words, reference, row + 1, costs[row], costs[row + 1], edits[row + 1])
        _align(edits, places, is_wrong, is_missed)
        n_tried = _find_shift(
            words, reference, costs, places, is_wrong, is_missed, moved, rows, row_edits, n_tried, shift
        )  # fmt: skip
        if n_tried >= MOST_SHIFTS or shift[SAVED] <= 0:
            return n_shifts + costs[n_words, n_others]
        _move(words, shift[START], shift[LENGTH], shift[TARGET], moved)
        words, moved = moved, words
        n_shifts += 1


@inner
def _fill_row(words: Any, reference: Any, row: int, above: Any, costs: Any, edits: Any) -> None:
    """Edit distances of the first `row` words to the first words of the reference.

    Of equal edits the substitution is preferred, then the deletion.
    """
    n_words, n_others = len(words), len(reference)
    ratio = n_others / n_words
    beam = BEAM if ratio / 2 <= BEAM else -int(-(ratio / 2 + BEAM) // 1)
    middle = int(row * ratio)
    start = max(0, middle - beam)
    end = n_others + 1 if row == n_words else min(n_others + 1, middle + beam)
    word = words[row - 1]
    for column in range(start):
        costs[column] = UNREACHED
    for column in range(start, end):
        cost, edit = above[column] + 1, DELETE
        if column > 0:
            is_same = word == reference[column - 1]
            replaced = above[column - 1] + (0 if is_same else 1)
            if replaced <= cost:
                cost, edit = replaced, KEEP if is_same else SUBSTITUTE
            if costs[column - 1] + 1 < cost:
                cost, edit = costs[column - 1] + 1, INSERT
        costs[column], edits[column] = cost, edit
    for column in range(end, n_others + 1):
        costs[column] = UNREACHED


@inner
def _align(edits: Any, places: Any, is_wrong: Any, is_missed: Any) -> None:
    """The place in the hypothesis of each word of the reference, and which words of both are edited.

    A word that the hypothesis lacks has the place of the word before it, -1 at the beginning.
    """
    row, column = len(is_wrong), len(is_missed)
    while row > 0 or column > 0:
        edit = edits[row, column]
        if edit != INSERT:
            row -= 1
            is_wrong[row] = edit != KEEP
        if edit != DELETE:
            column -= 1
            is_missed[column] = edit != KEEP
            places[column] = row - 1 if edit == INSERT else row


@inner
def _find_shift(
    words: Any, reference: Any, costs: Any, places: Any, is_wrong: Any, is_missed: Any,
    moved: Any, rows: Any, edits: Any, n_tried: int, shift: Any,
) -> int:  # fmt: skip
    """Find the shift that saves most, of words that the reference has elsewhere; return the number of tries.

    Words are shifted only if one of them is edited, and one of those at the other place.
    """
    n_words, n_others = len(words), len(reference)
    shift[SAVED] = shift[LENGTH] = 0
    for start in range(n_words):
        first = max(0, start - FARTHEST_SHIFT)
        for other in range(first, min(n_others, start + FARTHEST_SHIFT + 1)):
            n_wrong = n_missed = 0
            longest = min(MOST_SHIFTED_WORDS, n_words - start, n_others - other)
            for length in range(1, longest + 1):
                if words[start + length - 1] != reference[other + length - 1]:
                    break
                n_wrong += is_wrong[start + length - 1]
                n_missed += is_missed[other + length - 1]
                if n_wrong == 0 or n_missed == 0 or start <= places[other] < start + length:
                    continue
                n_tried += _try_places(
                    words, reference, costs, places, start, other, length, moved, rows, edits, shift
                )
                if n_tried >= MOST_SHIFTS:
                    return n_tried
    return n_tried


@inner
def _try_places(
    words: Any, reference: Any, costs: Any, places: Any, start: int, other: int, length: int,
    moved: Any, rows: Any, edits: Any, shift: Any,
) -> int:  # fmt: skip
    """Try the places before and after each word that the shifted ones could match; return their number."""
    cost = costs[len(words), len(reference)]
    n_tried, last = 0, -1
    for offset in range(other - 1, other + length):
        target = places[offset] + 1 if offset >= 0 else 0
        if target == last:
            continue
        last = target
        n_tried += 1
        first = _move(words, start, length, target, moved)
        saved = cost - _distance(moved, reference, first, costs, rows, edits)
        if _is_better(saved, length, start, target, shift):
            shift[SAVED], shift[LENGTH], shift[START], shift[TARGET] = saved, length, start, target
    return n_tried


@inner
def _is_better(saved: int, length: int, start: int, target: int, best: Any) -> bool:
    """Of equal ones the longest shift is taken, then that of the first words, then that to the first place."""
    if best[LENGTH] == 0:
        return True
    if saved != best[SAVED]:
        return bool(saved > best[SAVED])
    if length != best[LENGTH]:
        return bool(length > best[LENGTH])
    if start != best[START]:
        return bool(start < best[START])
    return bool(target < best[TARGET])


@inner
def _distance(words: Any, reference: Any, first: int, costs: Any, rows: Any, edits: Any) -> int:
    """The edit distance, given the costs of a text with the same words before `first`."""
    above = costs[first]
    for row in range(first + 1, len(words) + 1):
        below = rows[row % 2]
        _fill_row(words, reference, row, above, below, edits)
        above = below
    return int(above[len(reference)])


@inner
def _move(words: Any, start: int, length: int, target: int, moved: Any) -> int:
    """Write the words with some of them moved before `target`; return the first place that may differ.

    A target inside of the moved words counts from their end, as in sacreBLEU.
    """
    n_words = len(words)
    if target < start:
        new = target
    elif target > start + length:
        new = target - length
    else:
        new = min(target, n_words - length)
    rest = 0
    for place in range(n_words):
        if new <= place < new + length:
            moved[place] = words[start + place - new]
            continue
        if rest == start:
            rest += length
        moved[place] = words[rest]
        rest += 1
    return min(start, new)
