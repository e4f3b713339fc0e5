from __future__ import annotations

import math

import numpy as np
import pytest

from rescorer.views.map_layout import (
    Window,
    densest_windows,
    heads,
    incidence,
    layout,
    map_purity,
    nearest_purity,
)


def lumps() -> tuple[np.ndarray, list[list[bytes]]]:
    """Four directions in ten dimensions, 12 noisy vectors of any length around each."""
    rng = np.random.default_rng(2)
    centres = np.repeat(rng.normal(size=(4, 10)), 12, axis=0)
    vectors = (centres + 0.1 * rng.normal(size=centres.shape)) * rng.uniform(1, 5, (48, 1))
    return vectors.astype(np.float32), [[b"%d" % (row // 12)] for row in range(48)]


def test_lumps_stay_together() -> None:
    vectors, labels = lumps()
    made = layout(vectors, 1)
    assert made.places.shape == (48, 2) and made.perplexity == pytest.approx(47 / 3)
    n_points, share, chance = nearest_purity(made.places, incidence(labels), None)
    assert (n_points, share) == (48, 1.0)
    assert chance == pytest.approx(11 / 47)
    np.testing.assert_array_equal(layout(vectors, 1).places, made.places)


# Two lumps, the second tighter, and a point far away.
POINTS = np.array([[0, 0], [2, 0], [0, 2], [10, 10], [11, 10], [10, 11], [50, 50]], float)


def test_the_densest_part_comes_first() -> None:
    first, second = densest_windows(POINTS, 2, 3)
    assert first == Window(9, 11, 9, 11)
    assert second == Window(-2, 2, -2, 2)
    assert first.holds(POINTS).tolist() == [False] * 3 + [True] * 3 + [False]


def test_windows_do_not_meet() -> None:
    windows = densest_windows(np.random.default_rng(0).normal(size=(300, 2)), 5, 20)
    assert len(windows) == 5
    assert not any(a.meets(b) for a in windows for b in windows if a is not b)


def test_fewer_points_than_asked_for() -> None:
    (window,) = densest_windows(POINTS, 4, 100)
    assert window.holds(POINTS).all()


# On a line: a and b are nearest to each other, c to b, d to c.
PLACES = np.array([[0.0], [1.0], [2.5], [5.0]])
OWN = [[b"the", b"house"], [b"a", b"house"], [b"the", b"car"], [b"in"]]
LINKED = [[b"le", b"maison"], [b"une", b"maison"], [b"le", b"auto"], [b"une"]]


def test_by_hand() -> None:
    """Linked words: a-b share maison, a-c le, b-d une.

    Nearest: a-b yes, b-a yes, c-b no, d-c no: 2 of 4. By chance a has 2 of 3, b 2 of 3, c 1 of 3, d 1 of 3.
    Heads: maison, le and une stand in two lists each, auto in one; of equal ones the last: maison, maison,
    auto, une. Nearest: a-b, b-a: 2 of 4; by chance a 1 of 3, b 1 of 3.
    Without shared words of their own a may go to d, b to c and d, c to b and d, d to all. Nearest: a-d no,
    b-c no, c-b no, d-c no. By chance linked: a 0 of 1, b 1 of 2 (d), c 0 of 2, d 1 of 3.
    """
    rows = {(r.together, r.neighbors): r for r in map_purity(PLACES, "map", OWN, LINKED)}
    expected = {
        ("head", "all"): (0.5, (1 / 3 + 1 / 3) / 4),
        ("linked word", "all"): (0.5, (2 / 3 + 2 / 3 + 1 / 3 + 1 / 3) / 4),
        ("head", "without a shared word"): (0.0, 0.0),
        ("linked word", "without a shared word"): (0.0, (1 / 2 + 1 / 3) / 4),
    }
    assert rows.keys() == expected.keys()
    for key, (share, chance) in expected.items():
        assert rows[key].n_points == 4
        assert (rows[key].share, rows[key].chance) == pytest.approx((share, chance)), key


def test_heads_are_the_rarest_words() -> None:
    assert heads(LINKED) == [b"maison", b"maison", b"auto", b"une"]


def test_phrases_without_links_are_left_out() -> None:
    linked = [LINKED[0], [], LINKED[2], LINKED[3]]
    rows = map_purity(PLACES, "map", OWN, linked)
    assert {row.n_points for row in rows if row.neighbors == "all"} == {3}
    # Only the first and the third share a linked word, and each is the other's nearest: 2 of 3.
    assert next(row.share for row in rows if row.together == "linked word") == pytest.approx(2 / 3)


def test_a_table_without_links() -> None:
    assert map_purity(PLACES, "map", OWN, [[]] * 4) == []


def test_nobody_to_be_compared_with() -> None:
    same = incidence([[b"x"]] * 3)
    n_points, share, chance = nearest_purity(np.zeros((3, 2)), same, same)
    assert n_points == 0 and math.isnan(share) and math.isnan(chance)


@pytest.mark.parametrize("with_apart", [False, True])
def test_against_loops(with_apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescorer.views.map_layout.ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(5)
    places = rng.normal(size=(30, 3))
    labels = [[b"%d" % n for n in rng.integers(0, 12, 2)] for _ in range(30)]
    words = [[b"%d" % rng.integers(0, 4)] for _ in range(30)]
    shares, chances = [], []
    for i in range(30):
        may = [
            j for j in range(30) if j != i and not (with_apart and set(words[i]) & set(words[j]))
        ]
        near = min(may, key=lambda j: float(((places[i] - places[j]) ** 2).sum()))
        shares.append(bool(set(labels[i]) & set(labels[near])))
        chances.append(np.mean([bool(set(labels[i]) & set(labels[j])) for j in may]))
    found = nearest_purity(places, incidence(labels), incidence(words) if with_apart else None)
    assert found == pytest.approx((30, np.mean(shares), np.mean(chances)))
