"""Charts of tuning runs and of trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tuning.loop.run_directory import TuningRun
from tuning.report.page.chart import (
    COLOURS,
    Chart,
    Spec,
    base_spec,
    highlighted_by_legend,
    number_axis,
    opacity,
    tooltip,
)
from tuning.report.page.learning_curve import LearningCurve
from tuning.report.run_series import weights_by_iteration

DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])


def dev_bleu_chart(runs: Mapping[str, TuningRun], systems: Mapping[str, str]) -> Chart:
    """Dev BLEU of each run by iteration.

    Args:
        runs: by name.
        systems: the system of each run, by the same names.
    """
    rows = [
        {
            "run": name,
            "system": systems[name],
            "iteration": number,
            "dev BLEU": iteration.bleu,
            "kept": number == run.kept,
        }
        for name, run in runs.items()
        for number, iteration in enumerate(run.iterations, start=1)
    ]
    spec = base_spec(rows, "Dev BLEU of each tuning run by iteration; see the table of runs.", 300)
    spec["encoding"] = {
        "x": _iterations(runs),
        "y": number_axis("dev BLEU", "dev BLEU"),
        "color": {"field": "system", "type": "nominal", "title": None, "sort": None},
        "opacity": opacity("chosen"),
        "detail": {"field": "run", "type": "nominal"},
        "tooltip": tooltip("run:N", "iteration:N", "dev BLEU:Q", digits=2),
    }
    spec["layer"] = [
        {
            "mark": {"type": "line", "point": {"size": 24}, "strokeWidth": 1.5},
            "params": [highlighted_by_legend("chosen", "system")],
        },
        {
            "transform": [{"filter": "datum.kept"}],
            "mark": {"type": "point", "size": 110, "strokeWidth": 1.5},
        },
    ]
    note = (
        "One line a run; circles: the weights that were kept. "
        "A click on a system in the legend shows it alone."
    )
    return Chart("dev-bleu", "Decoded dev BLEU by iteration", note, spec)


def weight_chart(runs: Mapping[str, TuningRun]) -> Chart:
    """Weights by iteration of the chosen run."""
    series = {name: weights_by_iteration(run) for name, run in runs.items()}
    columns = list(dict.fromkeys(column for values in series.values() for column in values))
    rows = [
        {"run": name, "column": column, "iteration": number, "weight": float(value)}
        for name, values in series.items()
        for column, weights in values.items()
        for number, value in enumerate(weights, start=1)
        if np.isfinite(value)
    ]
    spec = base_spec(rows, "Weights of the chosen run by iteration.", 340)
    choice = {"input": "select", "options": [*runs], "name": "Run "}
    spec["params"] = [
        {"name": "run", "value": next(iter(runs)), "bind": choice},
        highlighted_by_legend("chosen", "column"),
    ]
    spec["transform"] = [{"filter": "datum.run === run"}]
    spec["mark"] = {"type": "line", "point": {"size": 24}, "strokeWidth": 1.5}
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(columns))]
    dashes = [DASHES[number // len(COLOURS) % len(DASHES)] for number in range(len(columns))]
    legend = {"symbolType": "stroke", "symbolSize": 220, "symbolStrokeWidth": 2}
    column = {"field": "column", "type": "nominal", "title": None, "legend": legend}
    spec["encoding"] = {
        "x": _iterations(runs),
        "y": number_axis("weight", "weight"),
        "color": column | {"scale": {"domain": columns, "range": colours}},
        "strokeDash": column | {"scale": {"domain": columns, "range": dashes}},
        "opacity": opacity("chosen"),
        "tooltip": tooltip("column:N", "iteration:N", "weight:Q"),
    }
    note = "Absolute values add up to 1. A click on a column in the legend shows it alone."
    return Chart("weights", "Weights by iteration", note, spec)


def learning_charts(curves: Mapping[str, LearningCurve]) -> list[Chart]:
    """The losses of each network by passes over its data.

    Args:
        curves: by the name of the network.
    """
    return [
        _learning_chart(name, curve, number)
        for number, (name, curve) in enumerate(curves.items(), 1)
    ]


def _learning_chart(name: str, curve: LearningCurve, number: int) -> Chart:
    losses = [
        (kind, point, loss)
        for point in curve.points
        for kind, loss in (("training", point.training_loss), ("held out", point.held_out_loss))
        if loss is not None
    ]
    rows = [
        {
            "loss": kind,
            "epoch": point.epoch,
            "nats": loss,
            "update": point.update,
            "minutes": point.minutes,
        }
        for kind, point, loss in losses
    ]
    spec = base_spec(rows, f"Training and held-out loss of {name} by passes over its data.", 220)
    spec["mark"] = {"type": "line", "point": {"size": 20}, "strokeWidth": 1.5}
    kinds: dict[str, object] = {"domain": _KINDS, "range": [COLOURS[0], COLOURS[1]]}
    spec["encoding"] = {
        "x": number_axis("epoch", "passes over the data", grid=False),
        "y": number_axis("nats", "nats per word"),
        "color": {"field": "loss", "type": "nominal", "title": None, "scale": kinds},
        "tooltip": tooltip("loss:N", "nats:Q", "epoch:Q", "update:N", "minutes:Q"),
    }
    shown = f"{name} ({curve.architecture})" if curve.architecture else name
    note = (
        ""
        if curve.last_loss is None
        else f"Held out at the end: {curve.last_loss:.3f} nats per word."
    )
    return Chart(f"learning-{number}", shown, note, spec)


def _iterations(runs: Mapping[str, TuningRun]) -> Spec:
    longest = max(len(run.iterations) for run in runs.values())
    return number_axis("iteration", "iteration", grid=False, whole=longest)


_KINDS: Sequence[str] = ("held out", "training")
