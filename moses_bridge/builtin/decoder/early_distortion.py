"""Jumps paid for as soon as they are certain: [early-distortion-cost] of moses.ini.

A phrase away from the first gap makes a jump back necessary. This cost counts that jump at once
(Moore and Quirk 2007, Faster beam-search decoding for phrasal statistical machine translation, section 3).
"""

from __future__ import annotations

from moses_bridge.compiled.inner import inner


def early_cost(previous_end: int, gap: int, start: int, end: int) -> int:
    """The cost of translating words start..end-1 next, in words.

    Args:
        previous_end: end of the last translated phrase, exclusive.
        gap: first word not translated yet.
        start: first word of the phrase.
        end: end of the phrase, exclusive.
    """
    length = end - start
    if start == gap:
        return 0
    if end < previous_end:
        return 2 * length
    return 2 * (start - max(previous_end, gap) + length)


compiled_early_cost = inner(early_cost)
