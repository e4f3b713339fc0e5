"""Marked words: taking them out of both texts leaves the same words."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from tuning.compare.translated_text import Span, changed_words

TEXTS = st.lists(st.sampled_from("abcd"), max_size=12)


def unmarked(words: list[str], runs: list[Span]) -> list[str]:
    marked = {place for first, last in runs for place in range(first, last)}
    return [word for place, word in enumerate(words) if place not in marked]


def test_by_hand() -> None:
    old, new = ["the", "small", "red", "house"], ["the", "big", "house", "here"]
    assert changed_words(old, new) == ([(1, 3)], [(1, 2), (3, 4)])
    assert changed_words(old, old) == ([], [])
    assert changed_words([], new) == ([], [(0, 4)])


@given(TEXTS, TEXTS)
def test_what_is_not_marked_is_common(old: list[str], new: list[str]) -> None:
    gone, added = changed_words(old, new)
    assert unmarked(old, gone) == unmarked(new, added)
    for runs in (gone, added):
        assert all(first < last for first, last in runs)
        assert all(
            last < first for (_, last), (first, _) in itertools.pairwise(runs)
        )  # neighbours are one run


def test_a_line_of_one_word_many_times_takes_no_minutes() -> None:
    start = time.monotonic()
    changed_words(["a"] * 5000, ["a"] * 4999 + ["b"])
    assert time.monotonic() - start < 5
