"""Points of a map of words or phrases, as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moses_bridge.errors import InputError
from moses_bridge.json_files import read_json

FIELDS = "label, x, y, length, frequency, kind"


@dataclass(frozen=True)
class MapPoint:
    """A word or phrase on a map.

    Attributes:
        label: what it reads.
        x: coordinate without unit.
        y: the other one.
        length: its words.
        frequency: how often it was seen.
        kind: a word for what it is.
    """

    label: str
    x: float
    y: float
    length: int
    frequency: float
    kind: str


@dataclass(frozen=True)
class PointMap:
    """A map.

    Attributes:
        path: its file.
        points: one at least.
    """

    path: Path
    points: list[MapPoint]


def read_point_map(path: Path) -> PointMap:
    """Read a map: a list of objects with label, x, y, length, frequency and kind.

    Raises:
        InputError: it is something else, or empty.
    """
    value = read_json(path)
    if not isinstance(value, list) or not value:
        raise InputError(path, None, type(value).__name__, f"a list of points with {FIELDS}")
    return PointMap(path, [_point(entry, path, number) for number, entry in enumerate(value, 1)])


def _point(entry: Any, path: Path, number: int) -> MapPoint:
    try:
        x, y, frequency = float(entry["x"]), float(entry["y"]), float(entry["frequency"])
        if not all(map(math.isfinite, (x, y, frequency))):
            raise ValueError("a number that is not finite")
        label, kind = str(entry["label"]), str(entry["kind"])
        return MapPoint(label, x, y, int(entry["length"]), frequency, kind)
    except (KeyError, TypeError, ValueError) as error:
        found = f"{type(error).__name__} {error} in point {number}"
        raise InputError(path, None, found, FIELDS) from error
