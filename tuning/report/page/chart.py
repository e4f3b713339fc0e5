"""A chart of the page: a Vega-Lite specification with its texts, and the look shared by all charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Spec = dict[str, Any]
Row = Mapping[str, object]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name; nothing is read from there
# Distinguishable with the common colour blindnesses, each with a contrast of 3:1 or more on white.
COLOURS = (
    "#1f5f8b", "#c2502f", "#3a7d44", "#8a4f9e", "#9a6b00", "#138086", "#7a4b2a",
    "#c23b72", "#3f51b5", "#6b8e23", "#a0522d", "#00695c", "#ad1457",
)  # fmt: skip
# Light to dark: rare to frequent.
SEQUENTIAL = ("#9ecae1", "#6baed6", "#3182bd", "#08519c", "#08306b")
INK, MUTED, GRID = "#1d2430", "#5b6472", "#e4e7ec"
FADED = "#c3c9d1"
FEW_SYSTEMS = 5  # so many lines in one chart can be told apart
LEGEND_LABEL_PIXELS = 200
LABEL_PIXELS = 210  # of a system next to its row
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
CONFIG: Spec = {
    "font": FONT,
    "background": None,  # that of the page, light or dark
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "titlePadding": 8,
    },
    "legend": {
        "orient": "bottom",
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": LEGEND_LABEL_PIXELS,
    },
    "range": {"category": list(COLOURS)},
}


# A parameter: the visible part of both axes, dragged, and zoomed by Ctrl and the wheel.
SIGHT: Spec = {
    "name": "sight",
    "select": {"type": "interval", "zoom": "wheel![event.ctrlKey]"},
    "bind": "scales",
}


@dataclass(frozen=True)
class Chart:
    """One chart.

    Attributes:
        name: name of its place in the page, letters and dashes.
        renderer: svg can be read out and prints sharp; canvas is quick with thousands of points.
        zoomed: the parameter zoomed by the buttons, "" for none.
        fields: the fields on the two zoomed axes.
    """

    name: str
    title: str
    note: str
    spec: Spec
    renderer: Literal["svg", "canvas"] = "svg"
    zoomed: str = ""
    fields: tuple[str, str] = ("x", "y")


def base_spec(rows: Sequence[Row], description: str, height: int) -> Spec:
    """The beginning of each chart: its data, as wide as its place, read out as the description."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": [dict(row) for row in rows]},
        "config": CONFIG,
    }


def number_axis(
    field: str, title: str, *, grid: bool = True, zero: bool = False, whole: int = 0
) -> Spec:
    """A numeric position on a titled axis; `grid` draws lines through the chart, `zero` includes 0.

    For whole numbers from 1, `whole` is the last one; 0 for numbers of any kind.
    """
    axis: Spec = {"grid": grid, "tickCount": 6, "labelOverlap": "greedy"}
    if whole:
        axis |= {"format": "d", "values": list(range(1, whole + 1, max(1, whole // 12)))}
    scale = {"zero": zero, "nice": not whole}
    return {"field": field, "type": "quantitative", "title": title, "axis": axis, "scale": scale}


def tooltip(*fields: str, digits: int = 3) -> list[Spec]:
    """The fields shown for a mark; "name:N" is text, "name:Q" a number."""
    shown = []
    for field in fields:
        name, _, kind = field.rpartition(":")
        entry: Spec = {"field": name, "type": "quantitative" if kind == "Q" else "nominal"}
        shown.append(entry | ({"format": f".{digits}f"} if kind == "Q" else {}))
    return shown


@dataclass(frozen=True)
class Palette:
    """The colour of each system, the same in all charts of a page.

    Attributes:
        systems: all systems of the page, in their order.
        best: the one shown from the start where there are many.
    """

    systems: Sequence[str]
    best: str

    def colour(self, system: str) -> str:
        """The colour of a system; grey for the first one, which the others are compared with."""
        place = self.systems.index(system)
        return MUTED if place == 0 else COLOURS[(place - 1) % len(COLOURS)]

    def encoding(self, shown: Sequence[str]) -> Spec:
        """Colours by the field "system", with a legend of the systems shown."""
        distinct = [*dict.fromkeys(shown)]
        scale = {"domain": distinct, "range": [self.colour(system) for system in distinct]}
        return {"field": "system", "type": "nominal", "title": None, "scale": scale}

    def picked(self, shown: Sequence[str]) -> tuple[Spec, Spec, Spec]:
        """The parameter, colours and opacity of lines picked by their system in the legend (the rest is grey).

        Where there are many, one is picked from the start.
        """
        distinct = [*dict.fromkeys(shown)]
        pick: Spec = {
            "name": "chosen",
            "select": {"type": "point", "fields": ["system"]},
            "bind": "legend",
        }
        if len(distinct) > FEW_SYSTEMS:
            pick |= {"value": [{"system": self.best if self.best in distinct else distinct[-1]}]}
        coloured = {"condition": {"param": "chosen"} | self.encoding(distinct), "value": FADED}
        return pick, coloured, {"condition": {"param": "chosen", "value": 1}, "value": 0.7}
