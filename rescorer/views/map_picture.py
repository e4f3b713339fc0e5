"""Maps as pictures, PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rescorer.views.figure_files import label_text, new_figure, save_figure
from rescorer.views.zooms import Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES = (8.0, 7.0)
COLOURS = "viridis"


class Picture(NamedTuple):
    """What is drawn of a map.

    Attributes:
        title: above it.
        places: *Shape:* (n, 2).
        labels: the words or phrases.
        shades: what the colour says, *Shape:* (n,).
        legend: what that is.
    """

    title: str
    places: NDArray[np.float64]
    labels: Sequence[bytes]
    shades: NDArray[np.float64]
    legend: str


def draw_map(picture: Picture, windows: Sequence[Window], path: Path) -> None:
    """Write the whole map with a number at each window.

    Args:
        picture: the map.
        windows: those drawn apart.
        path: without its suffix; a PNG and an SVG are written.
    """
    with new_figure(INCHES) as (figure, axes):
        _without_ticks(axes)
        _scatter(picture, np.arange(len(picture.places)), axes, figure)
        for number, window in enumerate(windows, start=1):
            _frame(axes, window, number)
        axes.set_title(picture.title)
        save_figure(figure, path)


def draw_zoom(picture: Picture, window: Window, number: int, path: Path) -> None:
    """Write one window of a map, with as many labels as have room.

    Args:
        picture: the map.
        window: the part of it.
        number: of the window, for the title.
        path: without its suffix; a PNG and an SVG are written.
    """
    rows = np.flatnonzero(window.holds(picture.places))
    with new_figure(INCHES) as (figure, axes):
        _without_ticks(axes)
        _scatter(picture, rows, axes, figure)
        margin = 0.05 * (window.right - window.left) or 1.0
        axes.set_xlim(window.left - margin, window.right + margin)
        axes.set_ylim(window.bottom - margin, window.top + margin)
        axes.set_title(f"{picture.title}, part {number}")
        n_labels = _label(picture, rows, axes, figure)
        axes.set_xlabel(f"{n_labels} of {len(rows)} labels have room")
        save_figure(figure, path)


def _without_ticks(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])


def _scatter(picture: Picture, rows: NDArray[np.int64], axes: Axes, figure: Figure) -> None:
    x, y = picture.places[rows].T
    # One scale for all parts of a map.
    low, high = picture.shades.min(), picture.shades.max()
    size = 6 if len(rows) > 200 else 14
    dots = axes.scatter(
        x, y, c=picture.shades[rows], s=size, cmap=COLOURS, vmin=low, vmax=high, linewidths=0
    )
    figure.colorbar(dots, ax=axes, label=picture.legend, shrink=0.6)


def _frame(axes: Axes, window: Window, number: int) -> None:
    from matplotlib.patches import Rectangle

    width, height = window.right - window.left, window.top - window.bottom
    corner = (window.left, window.bottom)
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor="black", linewidth=1))
    axes.annotate(str(number), (window.right, window.top), fontsize="large", fontweight="bold")


def _label(picture: Picture, rows: NDArray[np.int64], axes: Axes, figure: Figure) -> int:
    """Write the labels that cover no other one, those of the highest shades first; how many they are."""
    figure.canvas.draw()  # the places of labels are known once the layout is
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    taken: list[Any] = []
    middle = sum(axes.get_xlim()) / 2
    for row in rows[np.argsort(-picture.shades[rows], kind="stable")]:
        text = axes.annotate(
            label_text(picture.labels[row]),
            tuple(picture.places[row]),
            xytext=(3 if picture.places[row, 0] < middle else -3, 2),
            ha="left" if picture.places[row, 0] < middle else "right",
            textcoords="offset points",
            fontsize=8,
            parse_math=False,
        )
        box = text.get_window_extent(renderer)
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)
    return len(taken)
