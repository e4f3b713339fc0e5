"""A scan as a picture: BLEU and n-gram precision by weight and by length."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuning.compare.scan.weight_scan import Scan
from tuning.report.picture import draw_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INTERVAL = 1.96  # standard errors on either side, 95% of a normal distribution


def plot_scan(scan: Scan, out: Path) -> None:
    """Draw BLEU by weight, as decoded and at equal length, and below it precision by length.

    Args:
        scan: the scan.
        out: a .png or .svg file; the same scan gives the same bytes.

    Raises:
        ConfigError: the suffix of out is neither .png nor .svg, or matplotlib is not installed.
    """
    draw_panels(
        out, [lambda axes: draw_scan_bleu(axes, scan), lambda axes: draw_precision(axes, scan)]
    )


def draw_scan_bleu(axes: Axes, scan: Scan) -> None:
    """BLEU by weight; bars: 95% of the difference from weight 0, over texts."""
    weights = [point.weight for point in scan.points]
    axes.plot(weights, [point.plain.bleu for point in scan.points], marker=".", label="plain")
    axes.errorbar(
        weights,
        [point.equal.bleu for point in scan.points],
        [INTERVAL * point.equal.error for point in scan.points],
        marker="o",
        capsize=2,
        label="at equal length",
    )
    axes.set_xlabel(f"weight of {scan.feature}")
    axes.set_ylabel("BLEU")
    _finish(axes)


def draw_precision(axes: Axes, scan: Scan) -> None:
    """n-gram precision by length, of the weights and of the other weight alone."""
    points = sorted(scan.points, key=lambda point: point.weight)
    lengths = [point.plain.length_ratio for point in points]
    precisions = [point.plain.precision for point in points]
    axes.plot(lengths, precisions, marker=".", label=scan.feature)
    for point, length, precision in zip(points, lengths, precisions, strict=True):
        axes.annotate(f"{point.weight:g}", (length, precision), fontsize="x-small")
    alone = sorted(
        [*scan.without, *(point.plain for point in points if not point.weight)],
        key=lambda measures: measures.length_ratio,
    )
    axes.plot(
        [measures.length_ratio for measures in alone],
        [measures.precision for measures in alone],
        marker="x",
        linestyle="--",
        label=f"{scan.against} alone",
    )
    axes.set_xlabel("output words for one reference word")
    axes.set_ylabel("n-gram precision")
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small", frameon=False)
