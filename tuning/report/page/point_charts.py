"""Charts of many points: a model's scores against the table's, and maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moses_bridge.formats.escapes import without_escapes
from tuning.report.page.chart import (
    GRID,
    INK,
    MUTED,
    Chart,
    Row,
    Spec,
    base_spec,
    moved_by_hand,
    number_axis,
    tooltip,
)
from tuning.report.page.point_map import PointMap
from tuning.report.page.scored_pairs import CLASSES, ScoredSample

LABEL_PIXELS = (140, 36)  # one label at most in each such part of a map
MARGIN = 0.03  # around the points, a share of their extent
SEQUENTIAL = (
    "#9ecae1",
    "#6baed6",
    "#3182bd",
    "#08519c",
    "#08306b",
)  # light to dark: rare to frequent


def class_name(lowest: int) -> str:
    """The name of a class of frequencies: "2–3", "100+"."""
    following = [other for other in CLASSES if other > lowest]
    if not following:
        return f"{lowest}+"
    last = following[0] - 1
    return str(lowest) if last == lowest else f"{lowest}–{last}"


def scatter_chart(sample: ScoredSample, number: int) -> Chart:
    """The model's score against the table's, one point for each phrase pair."""
    rows = [
        {
            "pair": without_escapes(f"{pair.source} → {pair.target}"),
            "table": pair.table_score,
            "model": pair.model_score,
            "frequency": class_name(lowest),
            "count": pair.count,
        }
        for lowest, pairs in sample.classes.items()
        for pair in pairs
    ]
    spec = base_spec(rows, "The model's log-probability of phrase pairs against the table's.", 380)
    names = [class_name(lowest) for lowest in sample.classes]
    scale = {"domain": names, "range": list(SEQUENTIAL[-len(names) :])}
    spec["params"] = [moved_by_hand("sight")]
    spec["mark"] = {"type": "point", "filled": True, "size": 22, "opacity": 0.65, "aria": False}
    spec["encoding"] = {
        "x": number_axis("table", "log p(target | source), the table (nats)"),
        "y": number_axis("model", "the model (nats)"),
        "color": {
            "field": "frequency",
            "type": "ordinal",
            "sort": names,
            "title": "times seen",
            "scale": scale,
        },
        "tooltip": tooltip("pair:N", "count:N", "table:Q", "model:Q", digits=2),
    }
    note = (
        f"{len(rows):,} of {sample.n_rows:,} pairs, as many from each class of frequency as there are room and "
        "pairs for. Drag to move; zoom with the buttons or with Ctrl and the wheel."
    )
    name = f"scatter-{number}"
    title = f"{Path(sample.model).name or 'Last column'} against the table"
    return Chart(name, title, note, spec, "canvas", "sight", ("table", "model"))


def map_chart(points: PointMap, number: int) -> Chart:
    """A map to move, zoom and search; the most frequent visible points have labels."""
    rows: Sequence[Row] = [
        vars(point)
        | {
            "label": without_escapes(point.label),
            "counterpart": without_escapes(point.counterpart),
        }
        for point in points.points
    ]
    spec = base_spec(rows, "Map of words or phrases: near points are alike for the network.", 560)
    x, y = (_fixed([float(getattr(point, axis)) for point in points.points]) for axis in "xy")
    spec["params"] = [
        {"name": "find", "value": "", "bind": {"input": "search", "name": "Find "}},
        {
            "name": "shade",
            "value": "frequency",
            "bind": {"input": "select", "options": ["frequency", "length"], "name": "Colour "},
        },
    ]
    spec["transform"] = [
        {
            "calculate": "shade === 'length' ? datum.length : log(max(datum.frequency || 1, 1)) / LN10",
            "as": "tone",
        },
        {
            "calculate": "length(find) > 0 && indexof(lower(datum.label), lower(find)) >= 0",
            "as": "found",
        },
    ]
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
    return {
        "params": [moved_by_hand("sight")],
        "mark": {"type": "point", "filled": True, "size": 24, "aria": False},
        "encoding": place
        | {
            "color": {
                "field": "tone",
                "type": "quantitative",
                "scale": {"range": list(SEQUENTIAL)},
                "legend": {
                    "title": "times seen, or words",
                    "labelExpr": label,
                    "gradientLength": 160,
                },
            },
            "opacity": {
                "condition": {"test": "length(find) > 0 && !datum.found", "value": 0.2},
                "value": 0.8,
            },
            "tooltip": [
                {"field": "label"},
                {"field": "counterpart", "title": "translation"},
                {"field": "length"},
                {"field": "frequency"},
            ],
        },
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
