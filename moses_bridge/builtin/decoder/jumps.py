"""The jump from one phrase to the next: its orientation in the source, and its cost.

With [early-distortion-cost] of moses.ini a jump is paid for as soon as it is certain: a phrase away from the
first gap requires a later jump back, which this cost includes at once (Moore and Quirk 2007, Faster beam-search
decoding for phrasal statistical machine translation, section 3).
"""

from __future__ import annotations

from moses_bridge.base.compiled.inner import inner

DISCONTINUOUS = 2


def orientation(previous_start: int, previous_end: int, start: int, end: int) -> int:
    """The orientation of a phrase to the previous one (LRModel::GetOrientation of Moses, msd).

    It is 0 for monotone, 1 for swap, 2 for discontinuous; ends are exclusive.
    """
    if start == previous_end:
        return 0
    return 1 if end == previous_start else DISCONTINUOUS


def words_between(previous_start: int, previous_end: int, start: int, end: int) -> tuple[int, int]:
    """The first source word between a phrase and the previous one, and the end; all ends are exclusive."""
    if previous_end <= start:
        return previous_end, start
    return end, previous_start


def early_cost(previous_end: int, gap: int, start: int, end: int) -> int:
    """The cost, in words, of translating words start..end-1 next.

    previous_end is the exclusive end of the last translated phrase, `gap` the first untranslated word.
    """
    length = end - start
    if start == gap:
        return 0
    if end < previous_end:
        return 2 * length
    return 2 * (start - max(previous_end, gap) + length)


compiled_orientation, compiled_words_between = inner(orientation), inner(words_between)
compiled_early_cost = inner(early_cost)
