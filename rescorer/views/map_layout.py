"""The points of a map: two dimensions of many, parts worth a closer look, and purity.

Two dimensions come from t-SNE (van der Maaten and Hinton, 2008) as openTSNE computes it. Purity
compares with chance how often neighbours on a map belong together, as docs/views.md defines it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from moses_bridge.base.progress import Progress
from rescorer.views.phrase_vectors import unit_rows

# The usual one; few points have fewer neighbours.
PERPLEXITY = 30.0
ITERATIONS = {"early_exaggeration_iter": 250, "n_iter": 500}
ITERATIONS_A_REPORT = 50


class Layout(NamedTuple):
    """Points in the plane, *Shape:* (n, 2), by t-SNE with so many effective neighbours (perplexity).

    The divergence is its loss at the end, in nats; the method is the library and its version.
    """

    places: NDArray[np.float64]
    perplexity: float
    kl_divergence: float
    method: str


def layout(vectors: NDArray[np.float32], seed: int) -> Layout:
    """Place at least 5 vectors, *Shape:* (n, d), in the plane so that near directions stay near.

    Vectors count by their direction (so the squared distance is 2 - 2 cosine). The start is the two principal
    components, whose solver gets the seed. The result is the same for the same vectors and seed on one
    machine.
    """
    import openTSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    with Progress("t-SNE", sum(ITERATIONS.values()), "iterations") as progress:

        def report(iteration: int, error: float, embedding: Any) -> None:
            progress.update(ITERATIONS_A_REPORT)

        made = openTSNE.TSNE(
            perplexity=perplexity,
            neighbors="exact",
            initialization="pca",
            random_state=seed,
            n_jobs=1,
            callbacks=report,
            callbacks_every_iters=ITERATIONS_A_REPORT,
            **ITERATIONS,
        ).fit(unit_rows(vectors))
    method = f"openTSNE {openTSNE.__version__}"
    return Layout(np.asarray(made, np.float64), perplexity, float(made.kl_divergence), method)


class Window(NamedTuple):
    """A square part of the plane."""

    left: float
    right: float
    bottom: float
    top: float

    def holds(self, places: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether points are inside, *Shape:* (n, 2) -> (n,)."""
        x, y = places[:, 0], places[:, 1]
        return (x >= self.left) & (x <= self.right) & (y >= self.bottom) & (y <= self.top)

    def meets(self, other: Window) -> bool:
        """Whether both have a point in common."""
        beside = self.right < other.left or other.right < self.left
        return not (beside or self.top < other.bottom or other.top < self.bottom)


def densest_windows(places: NDArray[np.float64], n_windows: int, n_points: int) -> list[Window]:
    """At most n_windows disjoint squares around points, *Shape:* (n, 2), the smallest first.

    Each holds the n_points nearest to the one in its middle, that one included; all, if there are fewer.
    """
    n_points = min(n_points, len(places))
    # The distance of squares: the larger one of both coordinates'.
    distances, _ = cKDTree(places).query(places, k=[n_points], p=np.inf)
    found: list[Window] = []
    for row in np.argsort(distances[:, 0], kind="stable"):
        (x, y), half = places[row], distances[row, 0]
        window = Window(*map(float, (x - half, x + half, y - half, y + half)))
        if len(found) < n_windows and not any(map(window.meets, found)):
            found.append(window)
    return found


ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Purity:
    """How often neighbours belong together.

    Attributes:
        together: "head" or "linked word".
        neighbors: "all" or "without a shared word".
        space: of the neighbours: "map", or "vectors" (cosine, before the map).
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
    """The purity by head and linked word, with all neighbours and with those sharing no word.

    Places, *Shape:* (n, any), are compared by Euclidean distance; phrases whose best translation has no
    linked words are left out. Returns four purities; none if fewer than two phrases are left.
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
    """The word of each list found in the fewest lists; of equal ones the last."""
    n_lists = Counter(word for words in linked for word in set(words))
    return [min(reversed(words), key=lambda word: n_lists[word]) for words in linked]


def incidence(words: Sequence[Sequence[bytes]]) -> csr_array:
    """The words of each list as 1 or 0, *Shape:* (n_lists, n_words)."""
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
    """How often a point's nearest neighbour shares a label with it, by Euclidean distance.

    Places have the *Shape:* (n, any), labels, 1 if a point has one, (n, n_labels); points sharing one of
    `apart`, (n, any), are no neighbours.

    Returns:
        Points with a neighbour; share of them whose nearest one has the same label, the first of
        equally near ones; the mean share of a point's possible neighbours with the same label.
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
