"""Charts of systems: their results, n-gram precisions, BLEU by length, and how their tunings went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tuning.compare.comparison import Comparison
from tuning.compare.translated_text import TranslatedText
from tuning.loop.run_directory import TuningRun
from tuning.report.page.chart import (
    FADED,
    LABEL_PIXELS,
    MUTED,
    Chart,
    Palette,
    Spec,
    base_spec,
    number_axis,
    tooltip,
)
from tuning.report.page.scored_pairs import class_name
from tuning.report.run_series import weights_by_iteration

UNTUNED = "UnknownWordPenalty0"  # its weight says nothing about a system
DOT_PIXELS = 24  # the height of a row


def dev_bleu_chart(
    runs: Mapping[str, TuningRun], systems: Mapping[str, str], palette: Palette
) -> Chart:
    """Dev BLEU of each run by iteration; runs and their systems by the names of the runs."""
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
    pick, colour, opacity = palette.picked([*systems.values()])
    spec["encoding"] = {
        "x": _iterations(runs),
        "y": number_axis("dev BLEU", "dev BLEU"),
        "color": colour,
        "opacity": opacity,
        "detail": {"field": "run", "type": "nominal"},
        "tooltip": tooltip("run:N", "iteration:N", "dev BLEU:Q", digits=2),
    }
    line = {"type": "line", "point": {"size": 24}, "strokeWidth": 1.5}
    circle = {"type": "point", "size": 110, "strokeWidth": 1.5}
    spec["layer"] = [
        {"mark": line, "params": [pick]},
        {"transform": [{"filter": "datum.kept"}], "mark": circle},
    ]
    note = (
        "One line a run; circles: the weights that were kept. "
        "A click on a system in the legend picks it; with Shift further ones."
    )
    return Chart("dev-bleu", "Decoded dev BLEU by iteration", note, spec)


def weight_chart(
    runs: Mapping[str, TuningRun], systems: Mapping[str, str], palette: Palette
) -> Chart:
    """The weights kept by the runs of each system, one dot a run, for the chosen column."""
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
    height = DOT_PIXELS * (len(shown) + 1)
    spec = base_spec(rows, "Final weights of each system for the chosen column.", height)
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


def _iterations(runs: Mapping[str, TuningRun]) -> Spec:
    longest = max(len(run.iterations) for run in runs.values())
    return number_axis("iteration", "iteration", grid=False, whole=longest)


ROW_PIXELS = 30
LENGTH_CLASSES = (1, 6, 11, 16, 21, 31, 41)  # number of source words at which a class begins


def delta_chart(comparison: Comparison, palette: Palette, name: str) -> Chart | None:
    """Each system's difference from the baseline with its interval; None for one system."""
    rows = [
        {
            "system": row.system,
            "delta": row.against_baseline.delta,
            "low": row.against_baseline.interval[0],
            "high": row.against_baseline.interval[1],
            "p": row.against_baseline.p_value,
        }
        for row in comparison.rows
        if row.against_baseline is not None
    ]
    if not rows:
        return None
    height = ROW_PIXELS * (len(rows) + 1)
    title = f"Difference from {comparison.rows[0].system} in test BLEU"
    spec = base_spec(rows, f"{title}, with 95% intervals; the numbers are in the table.", height)
    place = {"field": "system", "type": "nominal", "title": None, "sort": None}
    y = place | {"axis": {"labelLimit": LABEL_PIXELS, "ticks": False, "domain": False}}
    x = number_axis("low", "BLEU points", zero=True)
    told = tooltip("system:N", "delta:Q", "low:Q", "high:Q", "p:Q")
    spec["layer"] = [
        {
            "mark": {"type": "rule", "color": MUTED, "aria": False},
            "data": {"values": [{}]},
            "encoding": {"x": {"datum": 0}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2, "color": MUTED},
            "encoding": {"y": y, "x": x, "x2": {"field": "high"}, "tooltip": told},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "y": y,
                "x": {"field": "delta", "type": "quantitative"},
                "color": palette.encoding([row.system for row in comparison.rows])
                | {"legend": None},
                "tooltip": told,
            },
        },
    ]
    note = "Point: the difference; line: its 95% interval over texts and runs."
    return Chart(name, title, note, spec)


def precision_chart(comparison: Comparison, palette: Palette, name: str) -> Chart | None:
    """n-gram precisions of each system against the baseline's; None for one system."""
    baseline, *others = comparison.rows
    if not others:
        return None
    base = baseline.precisions
    rows = [
        {"system": row.system, "n-gram": f"{n}-grams", "precision": value, "change": value - before}
        for row in others
        for n, (value, before) in enumerate(zip(row.precisions, base, strict=True), start=1)
    ]
    title = f"Difference from {baseline.system} in n-gram precision"
    spec = base_spec(rows, f"{title}; the precisions are in the table.", 260)
    x = {"field": "n-gram", "type": "ordinal", "title": None, "axis": {"labelAngle": 0}}
    y = number_axis("change", "percentage points", zero=True)
    told = tooltip("system:N", "n-gram:N", "precision:Q", "change:Q", digits=2)
    spec |= _picked_lines(palette, [row.system for row in others], x, y, told)
    note = (
        "Precision: the share of the output's n-grams that stand in the reference. "
        "A click on a system in the legend picks it."
    )
    return Chart(name, title, note, spec)


def _picked_lines(palette: Palette, shown: Sequence[str], x: Spec, y: Spec, told: object) -> Spec:
    """Lines with points, one a system, which is picked in the legend."""
    pick, colour, opacity = palette.picked(shown)
    return {
        "params": [pick],
        "mark": {"type": "line", "point": {"filled": True, "size": 40}, "strokeWidth": 1.5},
        "encoding": {"x": x, "y": y, "color": colour, "opacity": opacity, "tooltip": told},
    }


def length_chart(text: TranslatedText, palette: Palette) -> Chart | None:
    """BLEU by length of the source sentence, above the first system's; None if all lengths are of one class.

    Without a second system it is BLEU itself.
    """
    lens = np.searchsorted(LENGTH_CLASSES, text.source_lens, side="right") - 1
    classes = np.unique(lens[lens >= 0])
    if len(classes) < 2:
        return None
    first, *others = text.systems
    shown = others or [first]
    scores = {
        (system, number): text.bleu_of(place, lens == number)
        for place, system in enumerate(text.systems)
        for number in classes
    }
    rows = [
        {
            "system": system,
            "length": class_name(LENGTH_CLASSES[number], LENGTH_CLASSES),
            "BLEU": scores[system, number],
            "change": scores[system, number] - (scores[first, number] if others else 0.0),
            "sentences": int((lens == number).sum()),
        }
        for system in shown
        for number in classes
    ]
    title = f"Difference from {first} in BLEU" if others else "BLEU"
    title += " by length of the source sentence"
    spec = base_spec(rows, f"{title}, one line a system.", 260)
    x: Spec = {"field": "length", "type": "ordinal", "sort": None, "title": "source words"}
    x["axis"] = {"labelAngle": 0}
    y = number_axis("change", "BLEU points" if others else "BLEU", zero=bool(others))
    told = tooltip("system:N", "length:N", "BLEU:Q", "change:Q", digits=2)
    spec |= _picked_lines(palette, shown, x, y, [*told, {"field": "sentences"}])
    note = (
        "Of the run of each system whose translations are shown below. "
        "A click on a system in the legend picks it; with Shift further ones."
    )
    return Chart("bleu-by-length", title, note, spec)
