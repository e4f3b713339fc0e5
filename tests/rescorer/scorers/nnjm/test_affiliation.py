"""Affiliations against a loop that follows Devlin et al. (2014), section 2.1, word by word."""

from __future__ import annotations

import numpy as np
import pytest

from rescorer.scorers.nnjm.affiliation import PairLinks, affiliations


def affiliations_of(links: list[tuple[int, int]], n_source: int, n_target: int) -> list[int]:
    arrays = np.array(links, np.int64).reshape(-1, 2)
    found = affiliations(
        PairLinks(np.zeros(len(links), np.int64), arrays[:, 0], arrays[:, 1]),
        np.array([n_source]),
        np.array([n_target]),
    )
    return found.tolist()


def by_loop(links: list[tuple[int, int]], n_source: int, n_target: int) -> list[int]:
    own = {t: sorted(s for s, other in links if other == t) for t in range(n_target)}
    result = []
    for t in range(n_target):
        by_distance = sorted(range(n_target), key=lambda other: (abs(other - t), other < t))
        linked = [own[other] for other in by_distance if own[other]]
        middle = linked[0][(len(linked[0]) - 1) // 2] if linked else t * n_source // n_target
        result.append(middle)
    return [*result, n_source]


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([(0, 0), (1, 1), (2, 2)], [0, 1, 2, 3]),
        ([(2, 0), (0, 0), (1, 0)], [1, 1, 1, 3]),
        ([(2, 0), (0, 0)], [0, 0, 0, 3]),
        ([(0, 0), (2, 2)], [0, 2, 2, 3]),
        ([(1, 2)], [1, 1, 1, 3]),
        ([], [0, 1, 2, 3]),
    ],
    ids=["one", "middle of three", "lower of two", "right before left", "far", "none"],
)
def test_the_rules(links: list[tuple[int, int]], expected: list[int]) -> None:
    assert affiliations_of(links, 3, 3) == expected


@pytest.mark.parametrize("seed", range(20))
def test_many_pairs_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source_lens, target_lens = rng.integers(1, 7, 9), rng.integers(0, 7, 9)
    links, expected = [], []
    for pair, (n_source, n_target) in enumerate(zip(source_lens, target_lens, strict=True)):
        n_links = rng.integers(0, 6) if n_target else 0
        own = {(int(rng.integers(n_source)), int(rng.integers(n_target))) for _ in range(n_links)}
        links += [(pair, *link) for link in own]
        expected += by_loop(sorted(own), int(n_source), int(n_target))
    arrays = np.array(links, np.int64).reshape(-1, 3)
    found = affiliations(PairLinks(*arrays.T), source_lens, target_lens)
    assert found.tolist() == expected


def test_nothing_has_no_affiliations() -> None:
    nothing = np.zeros(0, np.int64)
    assert len(affiliations(PairLinks(nothing, nothing, nothing), nothing, nothing)) == 0
