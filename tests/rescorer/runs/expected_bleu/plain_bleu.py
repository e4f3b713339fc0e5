"""BLEU+1 of single sentences by counting n-grams of words (Lin and Och 2004): the plain path."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

MAX_ORDER = 4
# One added to matches and totals of the orders above 1 (Lin & Och 2004).
ADDED = (0, 1, 1, 1)
TINY = 1e-9  # replaces a count of 0 in a logarithm

Words = Sequence[bytes]


class SentenceReferences:
    """The references of one sentence, counted.

    Args:
        references: words of each; one at least.
    """

    def __init__(self, references: Sequence[Words]) -> None:
        self._lens = sorted(map(len, filter(None, references))) or [0]
        self._most = [Counter[tuple[bytes, ...]]() for _ in range(MAX_ORDER)]
        for words in references:
            for order, most in enumerate(self._most, start=1):
                most |= _ngrams(words, order)

    def bleu(self, words: Words) -> float:
        """BLEU+1 of a hypothesis, 0 to 1; the reference length is the closest one, of two the shorter."""
        if not words:
            return 0.0
        log_precision = 0.0
        for order, (most, added) in enumerate(zip(self._most, ADDED, strict=True), start=1):
            found = _ngrams(words, order)
            matches = sum(min(found[ngram], most[ngram]) for ngram in found.keys() & most.keys())
            total = max(0, len(words) - order + 1)
            log_precision += math.log(max(matches + added, TINY) / max(total + added, TINY))
        closest = min(self._lens, key=lambda length: abs(length - len(words)))
        return math.exp(log_precision / MAX_ORDER + min(0.0, 1 - closest / len(words)))


def _ngrams(words: Words, order: int) -> Counter[tuple[bytes, ...]]:
    return Counter(zip(*(words[first:] for first in range(order)), strict=False))
