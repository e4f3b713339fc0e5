"""N-grams of sentences as rows of word ids, for networks with a fixed number of previous words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import FREE, hash_next, hash_number, n_slots, slot_of
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit


def sentence_ngrams(
    ids: NDArray[np.int32], lens: NDArray[np.int64], context_words: int, start_id: int, end_id: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All n-grams of some sentences; the last word of each sentence is </s>.

    Ids are those of all words, one after another, *Shape:* (n_words,), lens the words in each sentence;
    start_id fills the context before the first word.

    Returns:
        The n-grams, oldest word first, *Shape:* (n_ngrams, context_words + 1), and the sentence of each,
            *Shape:* (n_ngrams,).
    """
    # One text, so that a long sentence needs no more memory than its words: start_id context_words times,
    # the words and </s> of each sentence, and after all of them one window, so that there always is one.
    firsts = starts_of_runs(lens + context_words + 1)
    text = np.full(int((lens + context_words + 1).sum()) + context_words + 1, start_id, np.int32)
    text[places_of_runs(firsts + context_words, lens)] = ids
    text[firsts + context_words + lens] = end_id
    windows = np.lib.stride_tricks.sliding_window_view(text, context_words + 1)
    sentence = np.repeat(np.arange(len(lens)), lens + 1)
    return windows[places_of_runs(firsts, lens + 1)], sentence


def starts_of_runs(lens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Starts of consecutive runs of these lengths, *Shape:* (n,) -> (n,)."""
    return np.cumsum(lens) - lens


def places_of_runs(firsts: NDArray[np.int64], lens: NDArray[np.int64]) -> NDArray[np.int64]:
    """All places of some runs with these starts and lengths, *Shape:* (n,), run by run: (sum of lens,)."""
    return np.arange(int(lens.sum())) + np.repeat(firsts - starts_of_runs(lens), lens)


def distinct_rows(rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The distinct rows of an array, (n, width), by first occurrence, and which of them each row is, (n,)."""
    firsts, which = first_of_each(rows, rows.shape[1])
    return rows[firsts], which


def first_of_each(
    rows: NDArray[np.int32], width: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The first row of each beginning of some width, rising, (n_distinct,), and which each row has, (n,)."""
    firsts, which = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    slots = np.full(n_slots(len(rows)), FREE, np.int32)
    return firsts[: _enter(rows, width, slots, firsts, which)], which


@njit(nogil=True)
def _enter(rows: Any, width: int, slots: Any, firsts: Any, which: Any) -> int:
    """Fill `firsts` and `which`, and return the number of distinct beginnings."""
    size = 0
    for i in range(len(rows)):
        slot = _slot_of(rows, i, width, slots, firsts)
        if slots[slot] == FREE:
            slots[slot] = size
            firsts[size] = i
            size += 1
        which[i] = slots[slot]
    return size


@inner
def _slot_of(rows: Any, i: int, width: int, slots: Any, firsts: Any) -> int:
    code = hash_number(1)
    for place in range(width):
        code = hash_next(code, rows[i, place])
    slot = slot_of(code, len(slots))
    while slots[slot] != FREE and not _begin_alike(rows, firsts[slots[slot]], i, width):
        slot = (slot + 1) & (len(slots) - 1)
    return int(slot)


@inner
def _begin_alike(rows: Any, one: int, other: int, width: int) -> bool:
    for place in range(width):  # noqa: SIM110 (slow when compiled)
        if rows[one, place] != rows[other, place]:
            return False
    return True
