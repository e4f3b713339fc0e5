"""The gains of a system in several tables as a frame of formatted cells, and the notes below it."""

from __future__ import annotations

import pandas as pd

from tuning.compare.comparison import Contrast
from tuning.compare.gains import Gain, Gains


def gains_frame(gains: Gains) -> pd.DataFrame:
    """One row for each table."""
    return pd.DataFrame([_cells(row) for row in gains.rows])


def gains_notes(gains: Gains) -> list[str]:
    """Notes on how the numbers were made, one line each."""
    return [
        f"delta: {gains.system} against the first system of each table, in BLEU on tokens, with its 95% "
        f"interval; p over texts and runs as in the tables; Holm: p corrected for {len(gains.rows)} tables.",
        "control: what a system that cannot help has in its place; vs control: the system against it.",
    ]


def _cells(row: Gain) -> dict[str, str]:
    low, high = row.against_baseline.interval
    return {
        "table": row.table,
        "baseline": f"{row.baseline_bleu:.2f}",
        "delta": f"{row.against_baseline.delta:+.2f}",
        "95%": f"{low:+.2f}..{high:+.2f}",
        "p": f"{row.against_baseline.p_value:.4f}",
        "Holm": f"{row.against_baseline.corrected_p_value:.4f}",
        "control": _delta(row.control),
        "vs control": _delta(row.against_control),
        "its Holm": ""
        if row.against_control is None
        else f"{row.against_control.corrected_p_value:.4f}",
        "runs": str(row.n_runs),
    }


def _delta(contrast: Contrast | None) -> str:
    return "" if contrast is None else f"{contrast.delta:+.2f}"
