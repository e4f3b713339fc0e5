"""Tuning runs as series over their iterations, and the short names distinguishing runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from tuning.loop.run_directory import WEIGHTS_NAME, TuningRun, load_run


def load_iterated_run(directory: Path) -> TuningRun:
    """A run with iterations; InputError if the directory is malformed or its run has none."""
    run = load_run(directory)
    if not run.iterations:
        raise InputError(directory / WEIGHTS_NAME, None, "no iterations", "at least one")
    return run


def short_names(directories: Sequence[Path]) -> list[str]:
    """The paths relative to the folder they share; ConfigError if one is given twice.

    Bytes that are no UTF-8 are shown as escapes.
    """
    paths = [os.path.abspath(directory) for directory in directories]
    if len(set(paths)) < len(paths):
        raise ConfigError("a run directory is given twice")
    if not paths:
        return []
    shared = os.path.commonpath([os.path.dirname(path) for path in paths])
    names = [os.fsencode(os.path.relpath(path, shared)) for path in paths]
    return [name.decode("utf-8", "backslashreplace") for name in names]


def weights_by_iteration(run: TuningRun) -> dict[str, NDArray[np.float64]]:
    """Each weight in each iteration, absolute values adding up to 1; NaN where it is missing.

    They are by column ("LM0", or "TranslationModel0_2" of several), *Shape:* (n_iterations,).
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
