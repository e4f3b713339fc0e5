"""Charts of the table of results: differences, n-gram precisions, BLEU by length."""

from __future__ import annotations

import numpy as np

from tuning.compare.comparison import Comparison
from tuning.pools.bleu_stats import bleu
from tuning.report.page.chart import (
    LABEL_PIXELS,
    MUTED,
    Chart,
    Palette,
    base_spec,
    number_axis,
    tooltip,
)
from tuning.report.page.sentences import TranslatedText

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
    baseline = comparison.rows[0].system
    height = ROW_PIXELS * (len(rows) + 1)
    title = f"Difference from {baseline} in test BLEU"
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
    rows = [
        {
            "system": row.system,
            "n-gram": f"{order}-grams",
            "precision": value,
            "change": value - before,
        }
        for row in others
        for order, (value, before) in enumerate(
            zip(row.precisions, baseline.precisions, strict=True), start=1
        )
    ]
    title = f"Difference from {baseline.system} in n-gram precision"
    spec = base_spec(rows, f"{title}; the precisions are in the table.", 260)
    pick, colour, opacity = palette.picked("chosen", [row.system for row in others])
    spec["params"] = [pick]
    spec["mark"] = {"type": "line", "point": {"filled": True, "size": 40}, "strokeWidth": 1.5}
    spec["encoding"] = {
        "x": {"field": "n-gram", "type": "ordinal", "title": None, "axis": {"labelAngle": 0}},
        "y": number_axis("change", "percentage points", zero=True),
        "color": colour,
        "opacity": opacity,
        "tooltip": tooltip("system:N", "n-gram:N", "precision:Q", "change:Q", digits=2),
    }
    note = (
        "Precision: the share of the output's n-grams that stand in the reference. "
        "A click on a system in the legend picks it."
    )
    return Chart(name, title, note, spec)


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
        (system, number): float(bleu(text.statistics[place][lens == number].sum(axis=0)))
        for place, system in enumerate(text.systems)
        for number in classes
    }
    rows = [
        {
            "system": system,
            "length": _class_name(int(number)),
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
    pick, colour, opacity = palette.picked("chosen", shown)
    spec["params"] = [pick]
    spec["mark"] = {"type": "line", "point": {"filled": True, "size": 40}, "strokeWidth": 1.5}
    axis = {"labelAngle": 0}
    spec["encoding"] = {
        "x": {
            "field": "length",
            "type": "ordinal",
            "sort": None,
            "title": "source words",
            "axis": axis,
        },
        "y": number_axis("change", "BLEU points" if others else "BLEU", zero=bool(others)),
        "color": colour,
        "opacity": opacity,
        "tooltip": [
            *tooltip("system:N", "length:N", "BLEU:Q", "change:Q", digits=2),
            {"field": "sentences"},
        ],
    }
    note = (
        "Of the run of each system whose translations are shown below. "
        "A click on a system in the legend picks it; with Shift further ones."
    )
    return Chart("bleu-by-length", title, note, spec)


def _class_name(number: int) -> str:
    first = LENGTH_CLASSES[number]
    if number + 1 == len(LENGTH_CLASSES):
        return f"{first}+"
    return f"{first}–{LENGTH_CLASSES[number + 1] - 1}"
