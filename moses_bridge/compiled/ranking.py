"""Ranking of scores in compiled code: a stable merge sort.

NumPy's one, in numba's version, takes seconds of a compilation of the decoder.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moses_bridge.compiled.inner import inner, inner_maker

RUN = 16  # numbers sorted by insertion


@inner_maker
def ranking(scores: Any) -> Any:
    """The places of scores, *Shape:* (n,), the highest one first; equal ones are in their order."""
    n_scores = len(scores)
    places, merged = np.empty(n_scores, np.int64), np.empty(n_scores, np.int64)
    for start in range(0, n_scores, RUN):
        _insert(scores, places, start, min(start + RUN, n_scores))
    width = RUN
    while width < n_scores:
        for start in range(0, n_scores, 2 * width):
            middle = min(start + width, n_scores)
            _merge(scores, places, start, middle, min(middle + width, n_scores), merged)
        places, merged = merged, places
        width *= 2
    return places


@inner
def _insert(scores: Any, places: Any, start: int, end: int) -> None:
    """Sort the places start..end-1 by insertion."""
    for new in range(start, end):
        i = new
        while i > start and scores[places[i - 1]] < scores[new]:
            places[i] = places[i - 1]
            i -= 1
        places[i] = new


@inner
def _merge(scores: Any, places: Any, start: int, middle: int, end: int, merged: Any) -> None:
    """Merge two sorted runs, start..middle-1 and middle..end-1."""
    left, right = start, middle
    for i in range(start, end):
        takes_left = right == end or (
            left < middle and scores[places[left]] >= scores[places[right]]
        )
        merged[i] = places[left] if takes_left else places[right]
        left += takes_left
        right += not takes_left
