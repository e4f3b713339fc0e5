"""Results as pictures of panels below one another, as .svg or .png; the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.plotting import load_matplotlib
from moses_bridge.base.textio import open_write
from tuning.report.run_series import load_iterated_run, short_names, weights_by_iteration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tuning.compare.comparison import Contrast
    from tuning.compare.gains import Gains
    from tuning.compare.scan import Scan
    from tuning.loop.run_directory import TuningRun

PICTURES = (".png", ".svg")
PANEL_INCHES = (7.0, 3.2)
DOTS_PER_INCH = 150  # small labels can be read on a screen
LINE_STYLES = ("-", "--", ":", "-.")
APART = 0.12  # of the rows' distance: system above, control below
INTERVAL = 1.96  # standard errors on either side, 95% of a normal distribution


def plot_runs(directories: Sequence[Path], out: Path) -> None:
    """Draw dev BLEU by iteration of all runs and, below, the weights of each run, as .png or .svg.

    A run is named by the last part of its path.

    Raises:
        InputError: a run directory is malformed or has no iterations.
        ConfigError: the suffix of out is neither .png nor .svg, or matplotlib is not installed.
    """
    _check_name(out)
    runs = dict(zip(short_names(directories), map(load_iterated_run, directories), strict=True))
    weights = [partial(draw_weight_lines, name=name, run=run) for name, run in runs.items()]
    draw_panels(out, [lambda axes: draw_dev_bleu(axes, runs), *weights])


def draw_dev_bleu(axes: Axes, runs: Mapping[str, TuningRun]) -> None:
    """Decoded dev BLEU of each run by iteration; the one whose weights were kept is marked."""
    for name, run in runs.items():
        values = [iteration.bleu for iteration in run.iterations]
        numbers = np.arange(1, len(values) + 1)
        (line,) = axes.plot(numbers, values, marker=".", label=name)
        kept = slice(max(run.kept - 1, 0), run.kept)
        axes.plot(numbers[kept], values[kept], marker="o", fillstyle="none", color=line.get_color())
    axes.set_ylabel("dev BLEU")
    axes.set_title("decoded dev BLEU; circles: the weights that were kept", fontsize="medium")
    _finish_run(axes)


def draw_weight_lines(axes: Axes, name: str, run: TuningRun) -> None:
    """Weights used in each iteration of a run, absolute values adding up to 1."""
    for number, (column, values) in enumerate(weights_by_iteration(run).items()):
        style = LINE_STYLES[number // 10 % len(LINE_STYLES)]  # there are ten colours
        iterations = np.arange(1, len(values) + 1)
        axes.plot(iterations, values, marker=".", linestyle=style, label=column)
    axes.set_ylabel("weight")
    axes.set_title(f"weights of {name}", fontsize="medium")
    _finish_run(axes)


def _finish_run(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="x-small", frameon=False, ncols=1
    )


def plot_gains(gains: Gains, out: Path) -> None:
    """Draw the gain of each table with its 95% interval over texts and runs, the first one on top."""

    def draw(axes: Axes) -> None:
        own = [row.against_baseline for row in gains.rows]
        _draw_contrasts(axes, own, -APART, "o", gains.system)
        if any(row.control is not None for row in gains.rows):
            _draw_contrasts(axes, [row.control for row in gains.rows], APART, "x", "control")
        axes.axvline(0, color="gray", linewidth=0.8)
        axes.set_yticks(range(len(gains.rows)), [row.table for row in gains.rows])
        axes.invert_yaxis()
        axes.set_xlabel("BLEU above the baseline")
        _finish(axes, "x")

    draw_panels(out, [draw])


def _draw_contrasts(
    axes: Axes, contrasts: Sequence[Contrast | None], shift: float, marker: str, label: str
) -> None:
    rows = [
        (each.delta, place + shift, each.delta - each.interval[0], each.interval[1] - each.delta)
        for place, each in enumerate(contrasts)
        if each is not None
    ]
    deltas, places, *ends = zip(*rows, strict=True)
    axes.errorbar(deltas, places, xerr=ends, marker=marker, linestyle="", capsize=2, label=label)


def plot_scan(scan: Scan, out: Path) -> None:
    """Draw BLEU by weight, as decoded and at equal length, and below it precision by length."""
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


def _finish(axes: Axes, grid: Literal["both", "x"] = "both") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, alpha=0.3)
    axes.legend(fontsize="x-small", frameon=False)


def _check_name(out: Path) -> None:
    """Refuse a name ending in neither .png nor .svg."""
    if out.suffix not in PICTURES:
        raise ConfigError(f"{out}: expected a name that ends in {' or '.join(PICTURES)}")


def draw_panels(out: Path, panels: Sequence[Callable[[Axes], None]]) -> None:
    """Write a picture; each panel is a function drawing on its axes.

    Raises:
        ConfigError: the suffix of out is neither .png nor .svg, or matplotlib is not installed.
    """
    _check_name(out)
    load_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = PANEL_INCHES
    with matplotlib.rc_context({"svg.hashsalt": "tuning"}):
        figure = Figure(figsize=(width, height * len(panels)), layout="constrained")
        FigureCanvasAgg(figure)
        all_axes = figure.subplots(len(panels), squeeze=False)[:, 0]
        for axes, draw in zip(all_axes, panels, strict=True):
            draw(axes)
        dated = {"Date": None} if out.suffix == ".svg" else {}
        with open_write(out) as stream:
            figure.savefig(stream, format=out.suffix[1:], dpi=DOTS_PER_INCH, metadata=dated)
