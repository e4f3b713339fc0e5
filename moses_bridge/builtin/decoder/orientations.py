"""How two phrases that follow each other in the target lie in the source."""

from __future__ import annotations

from moses_bridge.compiled.inner import inner

DISCONTINUOUS = 2  # the phrases are apart, or in no order


def orientation(previous_start: int, previous_end: int, start: int, end: int) -> int:
    """The orientation of a phrase to the previous one; ends are exclusive.

    It is 0 for monotone, 1 for swap, 2 for discontinuous (LRModel::GetOrientation of Moses, msd).
    """
    if start == previous_end:
        return 0
    return 1 if end == previous_start else DISCONTINUOUS


def words_between(previous_start: int, previous_end: int, start: int, end: int) -> tuple[int, int]:
    """The source words between a phrase and the previous one, first and end; all ends are exclusive."""
    if previous_end <= start:
        return previous_end, start
    return end, previous_start


compiled_orientation, compiled_words_between = inner(orientation), inner(words_between)
