"""Writing the results in the requested format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from moses_bridge.base.lock import held_directory
from moses_bridge.base.textio import open_write
from tuning.compare.comparison import Comparison
from tuning.compare.gains import Gains
from tuning.compare.output_scores import OutputScores, SystemScores
from tuning.compare.pooling import Pooled
from tuning.compare.scan.weight_scan import Scan
from tuning.report.as_json import to_json
from tuning.report.choices import OutputFormat
from tuning.report.frames import (
    comparison_frame,
    comparison_notes,
    scores_frame,
    systems_frame,
)
from tuning.report.gains_frames import gains_frame, gains_notes
from tuning.report.gains_plot import plot_gains
from tuning.report.latex import to_latex
from tuning.report.markdown import to_markdown
from tuning.report.pool_frames import pool_frame, pool_notes
from tuning.report.scan_frames import scan_frame, scan_notes
from tuning.report.scan_plot import plot_scan
from tuning.report.text import to_text
from tuning.report.verdict import verdict

Renderer = Callable[[pd.DataFrame, Sequence[str], Sequence[str]], str]  # cells, notes, lead
RENDERERS: dict[str, Renderer] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
}
SUFFIXES = {"txt": "text", "md": "markdown", "tex": "latex"}


def written_files(out: Path, name: str) -> list[Path]:
    """The files OUT/NAME that tables are written to, the picture among them."""
    return [out / f"{name}.{suffix}" for suffix in (*SUFFIXES, "json", "svg")]


def write_comparison(comparison: Comparison, out: Path) -> str:
    """Write OUT/table.txt, .md, .tex and .json.

    Returns:
        The text of table.txt.
    """
    frame, notes = comparison_frame(comparison), comparison_notes(comparison)
    return _write_forms(frame, notes, to_json(comparison), out / "table", verdict(comparison))


def write_scan(scan: Scan, out: Path) -> str:
    """Write OUT/scan.txt, .md, .tex, .json and the picture scan.svg.

    Returns:
        The text of scan.txt.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    text = _write_forms(scan_frame(scan), scan_notes(scan), to_json(scan), out / "scan")
    plot_scan(scan, out / "scan.svg")
    return text


def write_gains(gains: Gains, out: Path) -> str:
    """Write OUT/gains.txt, .md, .tex, .json and the picture gains.svg.

    Returns:
        The text of gains.txt.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    text = _write_forms(gains_frame(gains), gains_notes(gains), to_json(gains), out / "gains")
    plot_gains(gains, out / "gains.svg")
    return text


def write_pooled(pooled: Pooled, out: Path) -> str:
    """Write OUT/pool.txt, .md, .tex and .json.

    Returns:
        The text of pool.txt.
    """
    return _write_forms(pool_frame(pooled), pool_notes(pooled), to_json(pooled), out / "pool")


def _write_forms(
    frame: pd.DataFrame, notes: Sequence[str], as_json: str, out: Path, lead: Sequence[str] = ()
) -> str:
    with held_directory(out.parent):
        return _write_each(frame, notes, as_json, out, lead)


def _write_each(
    frame: pd.DataFrame, notes: Sequence[str], as_json: str, out: Path, lead: Sequence[str]
) -> str:
    contents = {suffix: RENDERERS[form](frame, notes, lead) for suffix, form in SUFFIXES.items()}
    for suffix, content in (contents | {"json": as_json}).items():
        with open_write(out.with_suffix(f".{suffix}")) as stream:
            stream.write(content.encode())
    return contents["txt"]


def format_scores(scores: OutputScores, form: OutputFormat) -> str:
    """The scores of one file of translations as "json", "text", "markdown" or "latex"."""
    if form == "json":
        return to_json(scores)
    return RENDERERS[form](scores_frame(scores), scores.signatures, ())


def format_systems(systems: Sequence[SystemScores], form: OutputFormat) -> str:
    """The scores of several systems as "json", "text", "markdown" or "latex"."""
    if form == "json":
        return to_json(systems)
    notes = [note for scores in systems[:1] for note in scores.outputs[0].signatures]
    return RENDERERS[form](systems_frame(systems), notes, ())
