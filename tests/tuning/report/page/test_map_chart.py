"""Maps as JSON: what is taken and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import InputError
from tuning.report.page.map_chart import MapPoint, map_chart, read_point_map

POINT = {"text": "la", "x": 1, "y": -2.5, "length": 1, "frequency": 7, "counterpart": "the"}
PURITY: dict[str, Any] = {"space": "map", "neighbors": "all", "together": "linked word"}
PURITY |= {"share": 0.5, "chance": 0.1}
MAP: dict[str, Any] = {"kind": "words", "side": "target", "purity": [], "points": [POINT]}


def write(folder: Path, value: object) -> Path:
    path = folder / "map.json"
    path.write_text(json.dumps(value))
    return path


def test_points(tmp_path: Path) -> None:
    other = POINT | {"text": "de la", "frequency": None, "more": 1}
    read = read_point_map(write(tmp_path, MAP | {"points": [POINT, other]}))
    first, second = read.points
    assert first == MapPoint("la", 1.0, -2.5, 1, 7.0, "the")
    assert (second.label, second.frequency) == ("de la", None)
    assert (read.name, read.shares) == ("target words", None)


def test_the_purity_of_neighbours_on_the_map(tmp_path: Path) -> None:
    others = [PURITY | {"space": "vectors", "share": 0.9}, PURITY | {"together": "head"}]
    assert read_point_map(write(tmp_path, MAP | {"purity": [*others, PURITY]})).shares == (0.5, 0.1)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        "text",
        [POINT],
        MAP | {"points": []},
        MAP | {"points": 3},
        MAP | {"points": [1]},
        MAP | {"points": [POINT, {"text": "x"}]},
        MAP | {"points": [POINT | {"x": "left"}]},
        MAP | {"points": [POINT | {"y": float("nan")}]},
        MAP | {"points": [POINT | {"length": None}]},
        MAP | {"purity": [{"space": "map"}]},
        MAP | {"purity": None},
        MAP | {"purity": [PURITY | {"share": float("nan")}]},
    ],
)
def test_something_else_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputError, match=r"map\.json: .*text, x, y, length, frequency"):
        read_point_map(write(tmp_path, value))


def test_the_axes_reach_over_all_points_with_room(tmp_path: Path) -> None:
    """Three percent of the range on both sides; 1 where all points are at one place."""
    points = [POINT, POINT | {"x": 11}]
    spec = map_chart(read_point_map(write(tmp_path, MAP | {"points": points})), 1).spec
    encoding = spec["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["domain"] == [0.7, 11.3]
    assert encoding["y"]["scale"]["domain"] == [-3.5, -1.5]
