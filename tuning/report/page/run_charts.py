"""Charts of tuning runs and of trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tuning.loop.run_directory import TuningRun
from tuning.report.page.chart import (
    COLOURS,
    FADED,
    LABEL_PIXELS,
    Chart,
    Palette,
    Spec,
    base_spec,
    number_axis,
    tooltip,
)
from tuning.report.page.learning_curve import LearningCurve
from tuning.report.run_series import weights_by_iteration

UNTUNED = "UnknownWordPenalty0"  # its weight says nothing about a system
DOT_PIXELS = 24  # the height of a row


def dev_bleu_chart(
    runs: Mapping[str, TuningRun], systems: Mapping[str, str], palette: Palette
) -> Chart:
    """Dev BLEU of each run by iteration.

    Args:
        runs: by name.
        systems: the system of each run, by the same names.
        palette: the colours of the systems.
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
    pick, colour, opacity = palette.picked("chosen", [*systems.values()])
    spec["encoding"] = {
        "x": _iterations(runs),
        "y": number_axis("dev BLEU", "dev BLEU"),
        "color": colour,
        "opacity": opacity,
        "detail": {"field": "run", "type": "nominal"},
        "tooltip": tooltip("run:N", "iteration:N", "dev BLEU:Q", digits=2),
    }
    spec["layer"] = [
        {
            "mark": {"type": "line", "point": {"size": 24}, "strokeWidth": 1.5},
            "params": [pick],
        },
        {
            "transform": [{"filter": "datum.kept"}],
            "mark": {"type": "point", "size": 110, "strokeWidth": 1.5},
        },
    ]
    note = (
        "One line a run; circles: the weights that were kept. "
        "A click on a system in the legend picks it; with Shift further ones."
    )
    return Chart("dev-bleu", "Decoded dev BLEU by iteration", note, spec)


def weight_chart(
    runs: Mapping[str, TuningRun], systems: Mapping[str, str], palette: Palette
) -> Chart:
    """The weights kept by the runs of each system, one dot a run, for the chosen column.

    Args:
        runs: by name.
        systems: the system of each run, by the same names.
        palette: the colours of the systems.
    """
    kept = {
        name: {column: values[run.kept - 1] for column, values in weights_by_iteration(run).items()}
        for name, run in runs.items()
    }
    columns = [*dict.fromkeys(column for weights in kept.values() for column in weights)]
    columns = [column for column in columns if column != UNTUNED] or columns
    rows = [
        {"run": name, "system": systems[name], "column": column, "weight": float(weights[column])}
        for column in columns
        for name, weights in kept.items()
        if column in weights and np.isfinite(weights[column])
    ]
    shown = [*dict.fromkeys(systems.values())]
    spec = base_spec(
        rows, "Final weights of each system for the chosen column.", DOT_PIXELS * (len(shown) + 1)
    )
    choice = {"input": "select", "options": columns, "name": "Column "}
    spec["params"] = [{"name": "column", "value": columns[-1], "bind": choice}]
    spec["transform"] = [{"filter": "datum.column === column"}]
    axis = {"labelLimit": LABEL_PIXELS, "ticks": False, "domain": False}
    y = {"field": "system", "type": "nominal", "title": None, "sort": shown, "axis": axis}
    told = tooltip("run:N", "weight:Q")
    spec["layer"] = [
        {
            "mark": {"type": "rule", "strokeWidth": 2, "color": FADED},
            "encoding": {
                "y": y,
                "x": {"aggregate": "min", "field": "weight", "type": "quantitative"},
                "x2": {"aggregate": "max", "field": "weight"},
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.9},
            "encoding": {
                "y": y,
                "x": number_axis("weight", "weight", zero=True),
                "color": palette.encoding(shown) | {"legend": None},
                "tooltip": told,
            },
        },
    ]
    note = (
        "One dot a run, the line from the smallest to the largest: how far tunings agree. "
        "Absolute values of a run's weights add up to 1."
    )
    return Chart("weights", "Final weights by system", note, spec)


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
    named = curve.architecture and curve.architecture != name
    shown = f"{name} ({curve.architecture})" if named else name
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
