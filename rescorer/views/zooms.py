"""Parts of a map worth a closer look."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree


class Window(NamedTuple):
    """A square part of the plane."""

    left: float
    right: float
    bottom: float
    top: float

    def holds(self, places: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which points are inside, *Shape:* (n, 2) -> (n,)."""
        x, y = places[:, 0], places[:, 1]
        return (x >= self.left) & (x <= self.right) & (y >= self.bottom) & (y <= self.top)

    def meets(self, other: Window) -> bool:
        """Whether both have a point in common."""
        beside = self.right < other.left or other.right < self.left
        return not (beside or self.top < other.bottom or other.top < self.bottom)


def densest_windows(places: NDArray[np.float64], n_windows: int, n_points: int) -> list[Window]:
    """Squares around points that hold their nearest points, the smallest first, none meeting another.

    Args:
        places: *Shape:* (n, 2).
        n_windows: maximum number.
        n_points: of each, the one in the middle among them; all, where there are fewer.
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
