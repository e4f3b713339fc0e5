from __future__ import annotations

import numpy as np

from rescorer.views.zooms import Window, densest_windows

# Two lumps, the second tighter, and a point far away.
PLACES = np.array([[0, 0], [2, 0], [0, 2], [10, 10], [11, 10], [10, 11], [50, 50]], float)


def test_the_densest_part_comes_first() -> None:
    first, second = densest_windows(PLACES, 2, 3)
    assert first == Window(9, 11, 9, 11)
    assert second == Window(-2, 2, -2, 2)
    assert first.holds(PLACES).tolist() == [False] * 3 + [True] * 3 + [False]


def test_windows_do_not_meet() -> None:
    windows = densest_windows(np.random.default_rng(0).normal(size=(300, 2)), 5, 20)
    assert len(windows) == 5
    assert not any(a.meets(b) for a in windows for b in windows if a is not b)


def test_fewer_points_than_asked_for() -> None:
    (window,) = densest_windows(PLACES, 4, 100)
    assert window.holds(PLACES).all()
