"""Tuning runs as a picture: dev BLEU and weights by iteration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import ConfigError, InputError
from tuning.report.picture import check_picture_name, draw_panels
from tuning.run_directory import WEIGHTS_NAME, TuningRun, load_run

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
    runs = dict(zip(_names(directories), map(_load, directories), strict=True))
    draw_panels(
        out,
        [
            lambda axes: draw_bleu(axes, runs),
            *(partial(draw_weights, name=name, run=run) for name, run in runs.items()),
        ],
    )


def _load(directory: Path) -> TuningRun:
    run = load_run(directory)
    if not run.iterations:
        raise InputError(directory / WEIGHTS_NAME, None, "no iterations", "at least one")
    return run


def _names(directories: Sequence[Path]) -> list[str]:
    """Short names of the runs: what is left of the paths without the folder they share, if they differ."""
    paths = [os.path.abspath(directory) for directory in directories]
    if len(set(paths)) < len(paths):
        raise ConfigError("a run directory is given twice")
    shared = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [os.path.relpath(path, shared) for path in paths]


def draw_bleu(axes: Axes, runs: Mapping[str, TuningRun]) -> None:
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


def draw_weights(axes: Axes, name: str, run: TuningRun) -> None:
    """Weights that each iteration of a run decoded with, absolute values adding up to 1."""
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


def weights_by_iteration(run: TuningRun) -> dict[str, NDArray[np.float64]]:
    """Each weight in each iteration, normalised; NaN where an iteration does not have it.

    Returns:
        By column ("LM0", or "TranslationModel0_2" of several), *Shape:* (n_iterations,).
    """
    rows = [_columns(iteration.weights) for iteration in run.iterations]
    totals = [sum(map(abs, row.values())) or 1.0 for row in rows]
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: np.array(
            [row.get(name, np.nan) / total for row, total in zip(rows, totals, strict=True)]
        )
        for name in names
    }


def _columns(weights: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {
        name if len(values) == 1 else f"{name}_{number}": value
        for name, values in weights.items()
        for number, value in enumerate(values)
    }


def _finish(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="x-small", frameon=False, ncols=1
    )
