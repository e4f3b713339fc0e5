"""Future costs: estimates of the best score of the uncovered words of a sentence.

The uncovered words of a hypothesis are gaps, each shorter than the distortion limit, and the end of the
sentence. So two kinds of spans are enough: those of a bounded number of words, and those from each word to the
end. Their number is linear in the length of the sentence, while that of all spans is quadratic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import compiled

# At least the search's MAX_WINDOW, the limit of gaps and source phrases. For sentences of up to LONGEST_SPAN
# words, the future costs equal those of Moses's table of all spans to the last bit. Longer sentences are
# rounded differently: sums of more than two parts are added up from the right only.
LONGEST_SPAN = 256


class FutureCosts(NamedTuple):
    """The best estimate for source words, from one phrase or several; a "cost", although higher is better.

    Attributes:
        spans: (n_words + 1, longest + 1); spans[start, length] is the cost of `length` words from `start` on.
            The longest span has min(n_words, LONGEST_SPAN) words.
        tails: (n_words + 1,); tails[start] is the cost of all words from `start` on.
    """

    spans: NDArray[np.float64]
    tails: NDArray[np.float64]


def no_costs(n_words: int) -> FutureCosts:
    """The costs of a sentence without phrases, minus infinity, to be filled by `combine_spans`."""
    longest = min(n_words, LONGEST_SPAN)
    return FutureCosts(np.full((n_words + 1, longest + 1), -np.inf), np.full(n_words + 1, -np.inf))


compiled_no_costs = inner_maker(no_costs)


@inner
def combine_spans(costs: FutureCosts) -> None:
    """Set the best estimate of each span from those of its parts (TranslationOptionCollection of Moses).

    At first, each span has the estimate of its best single phrase, minus infinity without one.
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


@compiled
def combined(costs: FutureCosts) -> FutureCosts:
    """The same costs after `combine_spans`."""
    combine_spans(costs)
    return costs
