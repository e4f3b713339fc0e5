"""The gains of a system in several tables as a picture: the delta with its interval, and the control."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuning.compare.comparison import Contrast
from tuning.compare.gains import Gains
from tuning.report.picture import draw_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

APART = 0.12  # of the rows' distance: system above, control below


def plot_gains(gains: Gains, out: Path) -> None:
    """Draw one line for each table, the first one on top.

    Args:
        gains: gains of a system.
        out: a .png or .svg file; the same gains give the same bytes.

    Raises:
        ConfigError: the suffix of out is neither .png nor .svg, or matplotlib is not installed.
    """
    draw_panels(out, [lambda axes: draw_gains(axes, gains)])


def draw_gains(axes: Axes, gains: Gains) -> None:
    """Deltas in BLEU; bars: 95% intervals over texts and runs."""
    names = [row.table for row in gains.rows]
    _draw(axes, [row.against_baseline for row in gains.rows], -APART, "o", gains.system)
    if any(row.control is not None for row in gains.rows):
        _draw(axes, [row.control for row in gains.rows], APART, "x", "control")
    axes.axvline(0, color="gray", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("BLEU above the baseline")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize="x-small", frameon=False)


def _draw(
    axes: Axes, contrasts: list[Contrast | None], shift: float, marker: str, label: str
) -> None:
    points = [(place + shift, each) for place, each in enumerate(contrasts) if each is not None]
    deltas = [each.delta for _, each in points]
    below = [each.delta - each.interval[0] for _, each in points]
    above = [each.interval[1] - each.delta for _, each in points]
    places = [place for place, _ in points]
    axes.errorbar(
        deltas, places, xerr=(below, above), marker=marker, linestyle="", capsize=2, label=label
    )
