"""How far word links are from given ones: alignment error rate of Och and Ney (2003), section 2.

All given links count as sure ones (S = P), so AER = 1 - 2 |A and S| / (|A| + |S|).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class AlignmentError:
    """Counts of links, which add up over sentence pairs.

    Attributes:
        n_found: judged links.
        n_given: reference links.
        n_both: those in both.
    """

    n_found: int = 0
    n_given: int = 0
    n_both: int = 0

    @classmethod
    def of(
        cls, found: Iterable[tuple[int, int]], given: Iterable[tuple[int, int]]
    ) -> AlignmentError:
        """The counts of one pair; a repeated link counts once."""
        distinct, sure = set(found), set(given)
        return cls(len(distinct), len(sure), len(distinct & sure))

    def __add__(self, other: AlignmentError) -> AlignmentError:
        return AlignmentError(
            self.n_found + other.n_found,
            self.n_given + other.n_given,
            self.n_both + other.n_both,
        )

    @property
    def rate(self) -> float:
        """Alignment error rate, 0 to 1; 0 where there are no links at all."""
        n_links = self.n_found + self.n_given
        return 1 - 2 * self.n_both / n_links if n_links else 0.0

    @property
    def precision(self) -> float:
        """The share of the judged links given, 0 to 1; 1 of no links."""
        return self.n_both / self.n_found if self.n_found else 1.0

    @property
    def recall(self) -> float:
        """The share of the given links found, 0 to 1; 1 of no links."""
        return self.n_both / self.n_given if self.n_given else 1.0

    def __str__(self) -> str:
        return (
            f"AER {self.rate:.1%}, precision {self.precision:.1%}, recall {self.recall:.1%} "
            f"({self.n_found} links, {self.n_given} given, {self.n_both} in both)"
        )
