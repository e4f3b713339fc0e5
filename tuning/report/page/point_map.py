"""Maps of words and phrases as `rescorer map` writes them, JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json

FIELDS = "text, x, y, length, frequency and counterpart"
EXPECTED = f'what `rescorer map` writes: "kind", "side", "purity" and "points" with {FIELDS}'


@dataclass(frozen=True)
class MapPoint:
    """A word or phrase on a map.

    Attributes:
        label: its text.
        x: coordinate without unit.
        y: the other one.
        length: number of its words.
        frequency: how often it was seen; None if not known.
        counterpart: its best translation; "" for none.
    """

    label: str
    x: float
    y: float
    length: int
    frequency: float | None
    counterpart: str


@dataclass(frozen=True)
class PointMap:
    """A map.

    Attributes:
        path: its file.
        name: name of its contents: "source phrases".
        points: its points, at least one.
        shares: share of points whose nearest neighbour on the map has the same linked word in its
            translation, and the share expected by chance, 0 to 1; None if not known.
    """

    path: Path
    name: str
    points: list[MapPoint]
    shares: tuple[float, float] | None


def read_point_map(path: Path) -> PointMap:
    """Read a map.

    Raises:
        InputError: the file is no map, or has no points.
    """
    value = read_json(path)
    entries = value.get("points") if isinstance(value, dict) else None
    if not isinstance(entries, list) or not entries:
        raise InputError(path, None, "no list of points", EXPECTED)
    points = [_point(entry, path, number) for number, entry in enumerate(entries, 1)]
    try:
        name = f"{value['side']} {value['kind']}"
        return PointMap(path, name, points, _shares(value["purity"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(path, None, f"{type(error).__name__} {error}", EXPECTED) from error


def _point(entry: Any, path: Path, number: int) -> MapPoint:
    try:
        seen = entry["frequency"]
        frequency = None if seen is None else float(seen)
        x, y = float(entry["x"]), float(entry["y"])
        if not all(map(math.isfinite, (x, y, frequency or 0.0))):
            raise ValueError("a number that is not finite")
        text, counterpart = str(entry["text"]), str(entry["counterpart"])
        return MapPoint(text, x, y, int(entry["length"]), frequency, counterpart)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        found = f"{type(error).__name__} {error} in point {number}"
        raise InputError(path, None, found, EXPECTED) from error


def _shares(purity: Any) -> tuple[float, float] | None:
    """Those of all neighbours on the map, by linked word."""
    wanted = {"space": "map", "neighbors": "all", "together": "linked word"}
    for row in purity:
        if all(row[key] == value for key, value in wanted.items()):
            return float(row["share"]), float(row["chance"])
    return None
