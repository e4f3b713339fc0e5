"""Tuning runs as a picture: dev BLEU and weights by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tuning.loop.run_directory import TuningRun
from tuning.report.picture import check_picture_name, draw_panels
from tuning.report.run_series import load_iterated_run, short_names, weights_by_iteration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_STYLES = ("-", "--", ":", "-.")


def plot_runs(directories: Sequence[Path], out: Path) -> None:
    """Draw dev BLEU by iteration of all runs and, below, the weights of each run.

    Args:
        directories: run directories; a run is named by the last part of its path.
        out: a .png or .svg file; the same runs give the same bytes.

    Raises:
        InputError: a run directory is malformed or has no iterations.
        ConfigError: the suffix of out is neither .png nor .svg, or matplotlib is not installed.
    """
    check_picture_name(out)
    runs = dict(zip(short_names(directories), map(load_iterated_run, directories), strict=True))
    draw_panels(
        out,
        [
            lambda axes: draw_dev_bleu(axes, runs),
            *(partial(draw_weight_lines, name=name, run=run) for name, run in runs.items()),
        ],
    )


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
    _finish(axes)


def draw_weight_lines(axes: Axes, name: str, run: TuningRun) -> None:
    """Weights used in each iteration of a run, absolute values adding up to 1."""
    styles = cycle(LINE_STYLES)
    style = next(styles)
    for number, (column, values) in enumerate(weights_by_iteration(run).items()):
        if number and number % 10 == 0:
            style = next(styles)
        iterations = np.arange(1, len(values) + 1)
        axes.plot(iterations, values, marker=".", linestyle=style, label=column)
    axes.set_ylabel("weight")
    axes.set_title(f"weights of {name}", fontsize="medium")
    _finish(axes)


def _finish(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="x-small", frameon=False, ncols=1
    )
