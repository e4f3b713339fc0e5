"""A picture of panels below one another, as .svg or .png; the same panels give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.textio import open_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
PANEL_INCHES = (7.0, 3.2)
DOTS_PER_INCH = 150  # small labels can be read on a screen


def check_picture_name(out: Path) -> None:
    """Refuse a name with an unknown suffix.

    Raises:
        ConfigError: it ends in neither .png nor .svg.
    """
    if out.suffix not in SUFFIXES:
        raise ConfigError(f"{out}: expected a name that ends in {' or '.join(SUFFIXES)}")


def draw_panels(out: Path, panels: Sequence[Callable[[Axes], None]]) -> None:
    """Write a picture.

    Args:
        out: a .png or .svg file.
        panels: functions, each drawing on its axes.

    Raises:
        ConfigError: out has another suffix.
    """
    check_picture_name(out)
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = PANEL_INCHES
    with matplotlib.rc_context({"svg.hashsalt": "tuning"}):
        figure = Figure(figsize=(width, height * len(panels)), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, draw in zip(
            figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True
        ):
            draw(axes)
        dated = {"Date": None} if out.suffix == ".svg" else {}
        with open_write(out) as stream:
            figure.savefig(stream, format=out.suffix[1:], dpi=DOTS_PER_INCH, metadata=dated)
