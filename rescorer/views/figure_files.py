"""Pictures of text as files: PNG and SVG, the same bytes for the same picture."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moses_bridge.base.textio import open_write
from rescorer.views.shown_text import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
DOTS_PER_INCH = 130
LONGEST_LABEL = 40  # characters; labels beyond would cover their neighbours


@contextmanager
def new_figure(inches: tuple[float, float]) -> Iterator[tuple[Figure, Axes]]:
    """An empty figure; characters that its font lacks are drawn as boxes, without a warning each."""
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
    """Write a figure.

    Args:
        figure: the picture.
        path: without its suffix.
    """
    for suffix in SUFFIXES:
        dated: dict[str, Any] = {"Date": None} if suffix == ".svg" else {}
        with open_write(path.with_name(path.name + suffix)) as stream:
            figure.savefig(stream, format=suffix[1:], dpi=DOTS_PER_INCH, metadata=dated)


def label_text(label: bytes) -> str:
    """A label as people read it, cut where it is too long."""
    text = readable(label)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"
