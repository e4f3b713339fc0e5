from __future__ import annotations

import random
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import write_lines
from moses_bridge.builtin.aligner import grow_diag_final_and, symmetrize

Links = list[tuple[int, int]]


@pytest.mark.parametrize(
    ("forward", "reverse", "links"),
    [
        ([], [], []),
        ([(0, 0)], [(0, 0)], [(0, 0)]),
        # Beside the intersection: taken, since its target has no link; then its own neighbour.
        ([(0, 0), (0, 1), (0, 2)], [(0, 0)], [(0, 0), (0, 1), (0, 2)]),
        # Across a corner, both words new.
        ([(0, 0), (1, 1)], [(0, 0)], [(0, 0), (1, 1)]),
        # Far from the intersection: last, where both words have no link yet.
        ([(0, 0), (3, 3)], [(0, 0)], [(0, 0), (3, 3)]),
        ([(0, 0), (3, 0)], [(0, 0)], [(0, 0)]),
        # Without intersection nothing grows; the forward links come first.
        ([(0, 1)], [(0, 0)], [(0, 1)]),
        ([(0, 0), (1, 0)], [(1, 1)], [(0, 0), (1, 1)]),
    ],
)
def test_links_by_hand(forward: Links, reverse: Links, links: Links) -> None:
    assert grow_diag_final_and(forward, reverse) == links


def test_between_intersection_and_union_and_no_word_is_left_out() -> None:
    draw = random.Random(2)
    for _ in range(500):
        cells = [(i, j) for i in range(5) for j in range(5)]
        one, other = (set(draw.sample(cells, draw.randint(0, 9))) for _ in range(2))
        links = set(grow_diag_final_and(one, other))
        assert one & other <= links <= one | other
        sources, targets = {i for i, _ in links}, {j for _, j in links}
        assert all(i in sources or j in targets for i, j in one | other)


def test_files_line_by_line(tmp_path: Path) -> None:
    write_lines(tmp_path / "forward", [b"0-0 1-1", b"", b"2-0"])
    write_lines(tmp_path / "reverse", [b"0-0", b"", b"2-0 1-1"])
    lines = list(symmetrize(tmp_path / "forward", tmp_path / "reverse"))
    assert lines == [b"0-0 1-1", b"", b"1-1 2-0"]


@pytest.mark.parametrize(
    ("reverse", "told"), [([b"0-0"], "reverse:2"), ([b"0-0", b"0:0"], "reverse:2: found the link")]
)
def test_faulty_files_are_told_by_line(tmp_path: Path, reverse: list[bytes], told: str) -> None:
    write_lines(tmp_path / "forward", [b"0-0", b"1-1"])
    write_lines(tmp_path / "reverse", reverse)
    with pytest.raises(InputError, match=told):
        list(symmetrize(tmp_path / "forward", tmp_path / "reverse"))
