"""Future costs: the best that the words of a sentence which are not yet covered may still bring.

What a hypothesis leaves uncovered is gaps, each shorter than the distortion limit, and the end of the
sentence. So two things are enough: spans of a bounded number of words, and the end of the sentence from
each word on. Their number grows with the length of the sentence, that of all spans with its square.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.compiled.inner import inner, inner_maker

# At least the search's MAX_WINDOW, which no gap and no source phrase exceeds. Up to so many words a sentence
# has the future costs of Moses's table of all spans to the last bit. Those of longer ones have other roundings:
# sums of more than two parts are added up from the right alone.
LONGEST_SPAN = 256


class FutureCosts(NamedTuple):
    """The best estimate for source words, by one phrase or by several; a cost although more is better.

    Attributes:
        spans: (n_words + 1, longest + 1); of the `length` words from `start` on: spans[start, length].
            The longest span has min(n_words, LONGEST_SPAN) words.
        tails: (n_words + 1,); of all words from `start` on.
    """

    spans: NDArray[np.float64]
    tails: NDArray[np.float64]


def no_costs(n_words: int) -> FutureCosts:
    """Those of a sentence without phrases, minus infinity; `combine_spans` works on them."""
    longest = min(n_words, LONGEST_SPAN)
    return FutureCosts(np.full((n_words + 1, longest + 1), -np.inf), np.full(n_words + 1, -np.inf))


compiled_no_costs = inner_maker(no_costs)


@inner
def combine_spans(costs: FutureCosts) -> None:
    """Make the best of each span out of the best of its parts (TranslationOptionCollection).

    Args:
        costs: the spans have the best single phrase of each, minus infinity where there is none.
    """
    spans, tails = costs.spans, costs.tails
    n_words, longest = len(tails) - 1, spans.shape[1] - 1
    for start in range(n_words + 1):
        spans[start, 0] = 0.0
    for length in range(2, longest + 1):
        for start in range(n_words - length + 1):
            best = spans[start, length]
            for first in range(1, length):
                best = max(best, spans[start, first] + spans[start + first, length - first])
            spans[start, length] = best
    for start in range(n_words, -1, -1):
        if n_words - start <= longest:
            tails[start] = spans[start, n_words - start]
        else:
            best = -np.inf
            for first in range(1, longest + 1):
                best = max(best, spans[start, first] + tails[start + first])
            tails[start] = best


@njit(cache=True)
def combined(costs: FutureCosts) -> FutureCosts:
    """The same costs after `combine_spans`."""
    combine_spans(costs)
    return costs
