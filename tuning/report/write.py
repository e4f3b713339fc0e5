"""Writing results in all forms, or printing them in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuning.report.forms import RENDERERS, OutputFormat, to_json

if TYPE_CHECKING:
    from tuning.compare.comparison import Comparison
    from tuning.compare.gains import Gains, Pooled
    from tuning.compare.output_scores import OutputScores, SystemScores
    from tuning.compare.scan import Scan
    from tuning.compare.worth import Worth
    from tuning.report.tables import Table

SUFFIXES = {"txt": "text", "md": "markdown", "tex": "latex"}


def written_files(out: Path, name: str) -> list[Path]:
    """The files OUT/NAME that tables are written to, the picture among them."""
    return [out / f"{name}.{suffix}" for suffix in (*SUFFIXES, "json", "svg")]


def write_comparison(comparison: Comparison, out: Path) -> str:
    """Write OUT/table.txt, .md, .tex and .json; return the text of table.txt."""
    from tuning.report.comparison_table import comparison_notes, comparison_rows
    from tuning.report.verdict import verdict

    table = comparison_rows(comparison), comparison_notes(comparison)
    return _write_forms(table, to_json(comparison), out / "table", verdict(comparison))


def write_scan(scan: Scan, out: Path) -> str:
    """Write OUT/scan.txt, .md, .tex, .json and the picture scan.svg; return the text of scan.txt."""
    from tuning.report.pictures import plot_scan
    from tuning.report.tables import scan_table

    text = _write_forms(scan_table(scan), to_json(scan), out / "scan")
    plot_scan(scan, out / "scan.svg")
    return text


def write_gains(gains: Gains, out: Path) -> str:
    """Write OUT/gains.txt, .md, .tex, .json and the picture gains.svg; return the text of gains.txt."""
    from tuning.report.pictures import plot_gains
    from tuning.report.tables import gains_table

    text = _write_forms(gains_table(gains), to_json(gains), out / "gains")
    plot_gains(gains, out / "gains.svg")
    return text


def write_pooled(pooled: Pooled, out: Path) -> str:
    """Write OUT/pool.txt, .md, .tex and .json; return the text of pool.txt."""
    from tuning.report.tables import pool_table

    return _write_forms(pool_table(pooled), to_json(pooled), out / "pool")


def _write_forms(table: Table, as_json: str, out: Path, lead: Sequence[str] = ()) -> str:
    from moses_bridge.base.lock import held_directory
    from moses_bridge.base.textio import write_bytes

    contents = {suffix: RENDERERS[form](*table, lead) for suffix, form in SUFFIXES.items()}
    with held_directory(out.parent):
        for suffix, content in (contents | {"json": as_json}).items():
            data = content.encode(errors="backslashreplace")  # names of files need not be UTF-8
            write_bytes(out.with_suffix(f".{suffix}"), data)
    return contents["txt"]


def format_scores(scores: OutputScores, form: OutputFormat) -> str:
    """The scores of one file of translations as "json", "text", "markdown" or "latex"."""
    if form == "json":
        return to_json(scores)
    from tuning.report.tables import scores_row

    return RENDERERS[form]([scores_row(scores)], scores.signatures, ())


def format_systems(systems: Sequence[SystemScores], form: OutputFormat) -> str:
    """The scores of several systems as "json", "text", "markdown" or "latex"."""
    if form == "json":
        return to_json(systems)
    from tuning.report.tables import system_row

    notes = [note for scores in systems[:1] for note in scores.outputs[0].signatures]
    return RENDERERS[form]([*map(system_row, systems)], notes, ())


def format_worth(worth: Worth, form: OutputFormat) -> str:
    """What scores are worth as "json", "text", "markdown" or "latex"."""
    if form == "json":
        return to_json(worth)
    from tuning.report.tables import worth_table

    return RENDERERS[form](*worth_table(worth), ())
