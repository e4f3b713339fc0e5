"""Whether neighbours on a map belong together, as one number against chance.

A phrase belongs to groups by its aligned counterpart: the words of its best translation linked to one
of its own words. Two phrases belong together if they share

- one of these words ("linked word"), or
- the rarest of these words ("head"): the one that the fewest best translations on the map have linked.

The purity is the share of the phrases whose nearest neighbour belongs together with them. Chance is what it
would be on average if each neighbour were drawn at random from the phrases that may be one. Phrases that share
a word of their own often have the same counterpart, which takes no network to find; so both numbers are also
given where only phrases without a shared word may be neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Purity:
    """How often neighbours belong together.

    Attributes:
        together: "head" or "linked word".
        neighbors: "all" or "without a shared word".
        space: where the neighbours are: "map", or "vectors" (cosine, before the map).
        n_points: phrases with linked words and another phrase to compare with.
        share: of them whose nearest neighbour belongs together with them, 0 to 1.
        chance: the same with neighbours drawn at random.
    """

    together: str
    neighbors: str
    space: str
    n_points: int
    share: float
    chance: float

    @property
    def as_json(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.space}, neighbours {self.neighbors}: same {self.together} {100 * self.share:.1f} %, "
            f"by chance {100 * self.chance:.1f} % ({self.n_points:,} phrases)"
        )


def map_purity(
    places: NDArray[np.floating[Any]],
    space: str,
    own_words: Sequence[Sequence[bytes]],
    linked: Sequence[Sequence[bytes]],
) -> list[Purity]:
    """The purity of phrases by head and by linked word, with all neighbours and with those that share no word.

    Args:
        places: of the phrases, compared by Euclidean distance, *Shape:* (n, any).
        space: what they are called.
        own_words: the words of each phrase.
        linked: the linked words of each phrase's best translation; phrases without any are left out.

    Returns:
        Four of them; none where fewer than two phrases have linked words.
    """
    rows = [row for row, words in enumerate(linked) if words]
    if len(rows) < 2:
        return []
    chosen = places[rows]
    counterparts = [linked[row] for row in rows]
    shared = incidence([own_words[row] for row in rows])
    labels = {
        "head": incidence([[head] for head in heads(counterparts)]),
        "linked word": incidence(counterparts),
    }
    compared = {"all": None, "without a shared word": shared}
    return [
        Purity(together, neighbors, space, *nearest_purity(chosen, label, apart))
        for together, label in labels.items()
        for neighbors, apart in compared.items()
    ]


def heads(linked: Sequence[Sequence[bytes]]) -> list[bytes]:
    """The word of each list that the fewest lists have; of equal ones the last."""
    n_lists = Counter(word for words in linked for word in set(words))
    return [min(reversed(words), key=lambda word: n_lists[word]) for words in linked]


def incidence(words: Sequence[Sequence[bytes]]) -> csr_array:
    """Which words each list has, *Shape:* (n_lists, n_words), 1 or 0."""
    numbers: dict[bytes, int] = {}
    pairs = {
        (row, numbers.setdefault(word, len(numbers)))
        for row, own in enumerate(words)
        for word in own
    }
    rows, columns = zip(*sorted(pairs), strict=True)
    ones = np.ones(len(rows), np.float32)
    return csr_array((ones, (rows, columns)), shape=(len(words), len(numbers)))


def nearest_purity(
    places: NDArray[np.floating[Any]], labels: csr_array, apart: csr_array | None
) -> tuple[int, float, float]:
    """How often a point's nearest neighbour shares a label with it.

    Args:
        places: compared by Euclidean distance, *Shape:* (n, any).
        labels: 1 where a point has a label, *Shape:* (n, n_labels).
        apart: points that share one of these are no neighbours, *Shape:* (n, any); None: all are.

    Returns:
        Points with a neighbour; share of them whose nearest one has the same label, the first of equally
        near ones; the mean share of a point's possible neighbours with the same label.
    """
    shares, chances = list[float](), list[float]()
    for first in range(0, len(places), ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, len(places)))
        same = _sharing(labels, rows)
        possible = np.ones_like(same) if apart is None else ~_sharing(apart, rows)
        possible[rows - first, rows] = False
        distances = np.where(possible, cdist(places[rows], places), np.inf)
        n_possible = possible.sum(axis=1)
        compared = np.flatnonzero(n_possible)
        shares += same[compared, distances.argmin(axis=1)[compared]].tolist()
        together = (same & possible).sum(axis=1)
        chances += (together[compared] / n_possible[compared]).tolist()
    if not shares:
        return 0, np.nan, np.nan
    return len(shares), float(np.mean(shares)), float(np.mean(chances))


def _sharing(incidences: csr_array, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether some rows have something in common with each row, *Shape:* (n_rows, n)."""
    shared: NDArray[np.bool_] = (incidences[rows] @ incidences.T).toarray() > 0
    return shared
