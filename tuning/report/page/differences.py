"""Which words of two translations differ."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

Span = tuple[int, int]


def changed_words(old: Sequence[str], new: Sequence[str]) -> tuple[list[Span], list[Span]]:
    """Find runs of words of one text missing from the other at this place.

    Returns:
        Ends of the runs, the second one not counted: those of old, and those of new.
    """
    if old == new:
        return [], []
    # SequenceMatcher leaves out frequent words in a text of 200 words or more. So a line of one word
    # 10,000 times does not take minutes, but more words than needed are marked in such a line.
    codes = SequenceMatcher(None, old, new).get_opcodes()
    changes = [code for code in codes if code[0] != "equal"]
    gone = [(first, last) for _, first, last, _, _ in changes if first < last]
    added = [(first, last) for _, _, _, first, last in changes if first < last]
    return gone, added
