"""How many words a network knows: a fixed number, or as many as make up a share of the running words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rescorer.contract.vocabulary import SPECIALS, Shortlists, Vocabulary
from rescorer.training.word_counts import WordCounts

SIDES = ("source", "target")


@dataclass(frozen=True)
class ChosenShortlists:
    """Shortlists of both sides and how much of the words they were chosen from they hold.

    Attributes:
        shortlists: the most frequent words of each side.
        covered: the share of the running words of each side in them, 0 to 1.
    """

    shortlists: Shortlists
    covered: tuple[float, float]

    def record(self) -> dict[str, Mapping[str, float]]:
        """Words and share of each side, to be kept with a model."""
        return {
            side: {"words": _n_words(words), "covered": round(share, 6)}
            for side, words, share in zip(SIDES, self.shortlists, self.covered, strict=True)
        }

    def __str__(self) -> str:
        sides = (
            f"{_n_words(words):,} {side} words ({share:.1%} of the text)"
            for side, words, share in zip(SIDES, self.shortlists, self.covered, strict=True)
        )
        return f"shortlists: {', '.join(sides)}"


def choose_shortlists(
    counts: Sequence[WordCounts], n_words: int, coverage: float
) -> ChosenShortlists:
    """The most frequent words of both sides.

    Args:
        counts: how often each word of the source and of the target side occurs in its text.
        n_words: words of each side, if coverage is 0.
        coverage: else the fewest words that make up this share of each side's running words.
    """
    source, target = (
        Vocabulary(of_side.most_frequent(_n_covering(of_side, coverage) if coverage else n_words))
        for of_side in counts
    )
    covered = (_covered(source, counts[0]), _covered(target, counts[1]))
    return ChosenShortlists(Shortlists(source, target), covered)


def _n_covering(counts: WordCounts, share: float) -> int:
    """How many of the most frequent words make up the share of all; one at least."""
    sums = np.cumsum(counts.falling())
    wanted = share * sums[-1] if len(sums) else 0.0
    return int(min(np.searchsorted(sums, wanted) + 1, max(1, len(sums))))


def _covered(words: Vocabulary, counts: WordCounts) -> float:
    known = int(counts.falling()[: len(words) - len(SPECIALS)].sum())
    return known / max(1, counts.n_running)


def _n_words(words: Vocabulary | None) -> int:
    return 0 if words is None else len(words) - len(SPECIALS)
