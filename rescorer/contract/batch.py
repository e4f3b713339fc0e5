"""Pairs to score, and the error for a pair that cannot be scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import UserError, shown
from rescorer.contract.choices import Side


@dataclass(frozen=True)
class Batch:
    """Pairs to score: words separated by blanks, and links in Pharaoh format for scorers that need them."""

    sources: Sequence[bytes]
    targets: Sequence[bytes]
    links: Sequence[bytes] | None = None

    def __post_init__(self) -> None:
        sizes = {len(column) for column in (self.sources, self.targets, self.links or self.targets)}
        if len(sizes) > 1:
            raise ValueError(f"{len(self.sources)} sources, {len(self.targets)} targets")

    def __len__(self) -> int:
        return len(self.targets)

    def part(self, rows: NDArray[np.int64]) -> Batch:
        """The pairs with these numbers."""
        sources, targets = ([side[row] for row in rows] for side in (self.sources, self.targets))
        return Batch(sources, targets, self.links and [self.links[row] for row in rows])

    def parts(self, size: int) -> Iterator[Batch]:
        """The pairs in order, `size` at a time; the last part may be smaller."""
        for first in range(0, len(self), size):
            rows = slice(first, first + size)
            yield Batch(self.sources[rows], self.targets[rows], self.links and self.links[rows])

    def sides_swapped(self) -> Batch:
        """The same pairs with sources and targets swapped."""
        links = None if self.links is None else [_turned(links) for links in self.links]
        return Batch(self.targets, self.sources, links)


def _turned(links: bytes) -> bytes:
    """Word links target-source."""
    return b" ".join(b"-".join(link.split(b"-")[::-1]) for link in links.split())


class UnscorablePair(UserError):
    """Raised for a pair that a scorer cannot score; callers add the file and line.

    The row is its place in the batch; the side that of the phrase at fault, None if the links are.
    """

    def __init__(
        self, row: int, batch: Batch, side: Side | None, fault: str, expected: str, hint: str
    ) -> None:
        self.row, self.side, self.fault = row, side, fault
        self.expected, self.hint = expected, hint
        pair = shown(b" ||| ".join([batch.sources[row], batch.targets[row]]))
        super().__init__(f"{pair}: found {self.found}, expected {expected}. {hint}")

    @property
    def found(self) -> str:
        """The fault and its side."""
        if self.side is None:
            return self.fault
        return f"{self.fault} on the {self.side} side"
