"""Pictures of maps and of attention as files: PNG and SVG, the same bytes for the same picture."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.plotting import load_matplotlib
from moses_bridge.base.textio import open_write
from moses_bridge.formats.words import readable
from rescorer.views.map_layout import Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
DOTS_PER_INCH = 130
LONGEST_LABEL = 40  # characters; labels beyond would cover their neighbours


@contextmanager
def new_figure(inches: tuple[float, float]) -> Iterator[tuple[Figure, Axes]]:
    """An empty figure; characters missing in its font are drawn as boxes, without warnings."""
    load_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with (
        matplotlib.rc_context({"svg.hashsalt": "rescorer", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message=".*missing from font")
        figure = Figure(figsize=inches, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.set_aspect("equal")
        yield figure, axes


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and SVG; the path is without suffix."""
    for suffix in SUFFIXES:
        dated: dict[str, Any] = {"Date": None} if suffix == ".svg" else {}
        with open_write(path.with_name(path.name + suffix)) as stream:
            figure.savefig(stream, format=suffix[1:], dpi=DOTS_PER_INCH, metadata=dated)


def label_text(label: bytes) -> str:
    """A readable label, cut if too long."""
    text = readable(label)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


INCHES_A_WORD = 0.24
# For the words next to the matrix, and the scale.
MARGIN_INCHES = 2.2
WEIGHT_COLOURS = "gray"  # black is 0, white is 1, as in the paper
END = b"</s>"


class AttentionPicture(NamedTuple):
    """The attention of a pair, to be drawn: words without </s>, from left to right and from top to bottom.

    The weights have </s> as last row and last column, *Shape:* (I + 1, J + 1); links of an aligner become
    rings.
    """

    title: str
    source: Sequence[bytes]
    target: Sequence[bytes]
    weights: NDArray[np.float32]
    given: Sequence[tuple[int, int]] | None = None


def draw_attention(picture: AttentionPicture, path: Path) -> None:
    """Write the matrix of weights, 0 to 1, as PNG and SVG; the path is without suffix."""
    n_rows, n_columns = picture.weights.shape
    inches = (MARGIN_INCHES + INCHES_A_WORD * n_columns, MARGIN_INCHES + INCHES_A_WORD * n_rows)
    with new_figure(inches) as (figure, axes):
        image = axes.imshow(
            picture.weights, cmap=WEIGHT_COLOURS, vmin=0, vmax=1, interpolation="nearest"
        )
        _name_words(picture, axes)
        if picture.given:
            sources, targets = zip(*picture.given, strict=True)
            axes.scatter(sources, targets, s=60, facecolors="none", edgecolors="tab:orange")
        axes.set_title(picture.title, parse_math=False)
        figure.colorbar(image, ax=axes, label="weight", shrink=0.6)
        save_figure(figure, path)


def _name_words(picture: AttentionPicture, axes: Axes) -> None:
    """Source words above the columns, target words next to the rows."""
    source, target = (
        [label_text(word) for word in (*words, END)] for words in (picture.source, picture.target)
    )
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), source, rotation=90, fontsize=8, parse_math=False)
    axes.set_yticks(range(len(target)), target, fontsize=8, parse_math=False)


INCHES = (8.0, 7.0)
COLOURS = "viridis"


class Picture(NamedTuple):
    """A map to be drawn: places, (n, 2), words or phrases, values shown by colour, (n,), and their name."""

    title: str
    places: NDArray[np.float64]
    labels: Sequence[bytes]
    shades: NDArray[np.float64]
    legend: str


def draw_map(picture: Picture, windows: Sequence[Window], path: Path) -> None:
    """Write the map with a number at each window, as PNG and SVG; the path is without suffix."""
    with new_figure(INCHES) as (figure, axes):
        _without_ticks(axes)
        _scatter(picture, np.arange(len(picture.places)), axes, figure)
        for number, window in enumerate(windows, start=1):
            _frame(axes, window, number)
        axes.set_title(picture.title)
        save_figure(figure, path)


def draw_zoom(picture: Picture, window: Window, number: int, path: Path) -> None:
    """Write a numbered window of a map as PNG and SVG, with as many labels as have room."""
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
    """Write the labels covering no other, those of the highest shades first; return their number."""
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
