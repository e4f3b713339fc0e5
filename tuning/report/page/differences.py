"""Which words of two translations differ."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

Span = tuple[int, int]


def changed_words(old: Sequence[str], new: Sequence[str]) -> tuple[list[Span], list[Span]]:
    """Find runs of words of one text that the other lacks at this place.

    Returns:
        Ends of the runs, the second one not counted: those of old, and those of new.
    """
    if old == new:
        return [], []
    # SequenceMatcher leaves out words that are frequent in a text of 200 words or more, so that a line
    # of one word 10,000 times takes no minutes; of such a line more words than needed are marked.
    codes = SequenceMatcher(None, old, new).get_opcodes()
    changes = [code for code in codes if code[0] != "equal"]
    gone = [(first, last) for _, first, last, _, _ in changes if first < last]
    added = [(first, last) for _, _, _, first, last in changes if first < last]
    return gone, added
