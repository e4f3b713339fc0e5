"""Maps of words and phrases as `rescorer map` writes them, JSON, and their chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json
from moses_bridge.formats.words import without_escapes
from tuning.report.page.chart import (
    GRID,
    INK,
    MUTED,
    SEQUENTIAL,
    SIGHT,
    Chart,
    Row,
    Spec,
    base_spec,
)

FIELDS = "text, x, y, length, frequency and counterpart"
EXPECTED = f'what `rescorer map` writes: "kind", "side", "purity" and "points" with {FIELDS}'
LABEL_PIXELS = (140, 36)  # one label at most in each such part of a map
MARGIN = 0.03  # around the points, a share of their extent


@dataclass(frozen=True)
class MapPoint:
    """A word or phrase on a map.

    Attributes:
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
        name: name of its contents: "source phrases".
        shares: share of points whose nearest neighbour on the map has the same linked word in its
            translation, and the share expected by chance, 0 to 1; None if not known.
    """

    path: Path
    name: str
    points: list[MapPoint]
    shares: tuple[float, float] | None


def read_point_map(path: Path) -> PointMap:
    """Read a map; InputError if the file is no map, or has no points."""
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
            share, chance = float(row["share"]), float(row["chance"])
            if not math.isfinite(share + chance):
                raise ValueError("a share that is not finite")
            return share, chance
    return None


def map_chart(points: PointMap, number: int) -> Chart:
    """A map to move, zoom and search; the most frequent visible points have labels."""
    rows: Sequence[Row] = [
        vars(point)
        | {"label": without_escapes(point.label), "counterpart": without_escapes(point.counterpart)}
        for point in points.points
    ]
    spec = base_spec(rows, "Map of words or phrases: near points are alike for the network.", 560)
    x, y = (_fixed([float(getattr(point, axis)) for point in points.points]) for axis in "xy")
    colour = {"input": "select", "options": ["frequency", "length"], "name": "Colour "}
    spec["params"] = [
        {"name": "find", "value": "", "bind": {"input": "search", "name": "Find "}},
        {"name": "shade", "value": "frequency", "bind": colour},
    ]
    tone = "shade === 'length' ? datum.length : log(max(datum.frequency || 1, 1)) / LN10"
    found = "length(find) > 0 && indexof(lower(datum.label), lower(find)) >= 0"
    spec["transform"] = [{"calculate": tone, "as": "tone"}, {"calculate": found, "as": "found"}]
    place = {axis: _plain_axis(axis, ends) for axis, ends in {"x": x, "y": y}.items()}
    spec["view"] = {"stroke": GRID}
    spec["layer"] = [_points(place), _found(place), *_labels(place, x, y)]
    title = points.name[:1].upper() + points.name[1:]
    return Chart(f"map-{number}", title, _map_note(points), spec, "canvas", "sight")


def _map_note(points: PointMap) -> str:
    note = (
        f"{len(points.points):,} points; the most frequent ones in sight have labels, or those that are "
        "found. Drag to move; zoom with the buttons or with Ctrl and the wheel."
    )
    if points.shares is None:
        return note
    share, chance = points.shares
    return (
        f"{note} The translations of {share:.1%} of them share a linked word with those of their nearest "
        f"neighbour; by chance it would be {chance:.1%}."
    )


def _plain_axis(field: str, ends: list[float]) -> Spec:
    """A position without an axis."""
    scale = {"domain": ends, "nice": False}
    return {"field": field, "type": "quantitative", "axis": None, "scale": scale}


def _points(place: Spec) -> Spec:
    label = "shade === 'length' ? datum.label : format(pow(10, datum.value), ',.0f')"
    legend = {"title": "times seen, or words", "labelExpr": label, "gradientLength": 160}
    colour = {
        "field": "tone",
        "type": "quantitative",
        "scale": {"range": list(SEQUENTIAL)},
        "legend": legend,
    }
    faded = {"test": "length(find) > 0 && !datum.found", "value": 0.2}
    told = [
        {"field": "label"},
        {"field": "counterpart", "title": "translation"},
        {"field": "length"},
        {"field": "frequency"},
    ]
    opacity = {"condition": faded, "value": 0.8}
    return {
        "params": [SIGHT],
        "mark": {"type": "point", "filled": True, "size": 24, "aria": False},
        "encoding": place | {"color": colour, "opacity": opacity, "tooltip": told},
    }


def _found(place: Spec) -> Spec:
    return {
        "transform": [{"filter": "datum.found"}],
        "mark": {"type": "point", "size": 110, "strokeWidth": 2, "color": "#c2502f", "aria": False},
        "encoding": place,
    }


def _labels(place: Spec, x: list[float], y: list[float]) -> list[Spec]:
    """Labels of the most frequent point in each cell of the visible part, or of the points found."""
    mark: dict[str, Any] = {"type": "text", "dy": -9, "fontSize": 11, "aria": False}
    cells = [
        {"calculate": _cell("x", x, f"width / {LABEL_PIXELS[0]}"), "as": "column"},
        {"calculate": _cell("y", y, f"height / {LABEL_PIXELS[1]}"), "as": "row"},
    ]
    ranked: list[Spec] = [
        {"filter": "length(find) === 0 || datum.found"},
        {"filter": {"param": "sight"}},
        *cells,
        {
            "window": [{"op": "row_number", "as": "rank"}],
            "sort": [{"field": "frequency", "order": "descending"}],
            "groupby": ["column", "row"],
        },
        {"filter": "datum.rank === 1"},
    ]
    text = {"text": {"field": "label", "type": "nominal"}}
    halo = mark | {"stroke": "white", "strokeWidth": 3, "color": MUTED}
    return [
        {"transform": ranked, "mark": halo, "encoding": place | text},
        {"transform": ranked, "mark": mark | {"color": INK}, "encoding": place | text},
    ]


def _cell(axis: str, ends: list[float], n_cells: str) -> str:
    """The number of a point's cell among those dividing the visible part along an axis."""
    low, high = (f"(sight.{axis} ? sight.{axis}[{i}] : {end})" for i, end in enumerate(ends))
    return f"floor((datum.{axis} - {low}) / ({high} - {low}) * max(1, floor({n_cells})))"


def _fixed(values: list[float]) -> list[float]:
    """Ends of an axis with some room; the labels depend on the visible part, so it must not move by itself."""
    low, high = min(values), max(values)
    room = MARGIN * (high - low) or 1.0
    return [low - room, high + room]
