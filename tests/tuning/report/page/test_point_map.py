"""Maps as JSON: what is taken and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moses_bridge.errors import InputError
from tuning.report.page.point_map import MapPoint, read_point_map

POINT = {"label": "la", "x": 1, "y": -2.5, "length": 1, "frequency": 7, "kind": "word"}


def test_points(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps([POINT, POINT | {"label": "de la", "more": 1}]))
    first, second = read_point_map(path).points
    assert first == MapPoint("la", 1.0, -2.5, 1, 7.0, "word")
    assert second.label == "de la"


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        "text",
        [1],
        [POINT, {"label": "x"}],
        [POINT | {"x": "left"}],
        [POINT | {"y": float("nan")}],
        [POINT | {"length": None}],
    ],
)
def test_something_else_is_refused(tmp_path: Path, value: object) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match=r"map\.json: .*label, x, y, length, frequency"):
        read_point_map(path)
