"""The whole of `rescorer score`: table, moses.ini, and what the user should know of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moses_bridge.errors import ConfigError
from moses_bridge.formats.phrase_table import read_rows
from moses_bridge.textio import STANDARD_STREAM
from rescorer.column import (
    LOWEST_PROB,
    ColumnOptions,
    ColumnReport,
    NamedScorer,
    add_columns,
    planned_columns,
)
from rescorer.ini_patch import binary_table_commands, check_ini, patch_ini


def score_table(
    table: str,
    out: str,
    scorers: Sequence[NamedScorer],
    options: ColumnOptions,
    ini: Path | None = None,
    ini_out: Path | None = None,
    resume: bool = False,
) -> list[str]:
    """Add columns to a table and patch its moses.ini; arguments as of `column.add_columns`.

    Args:
        table: the phrase table.
        out: the table to write.
        scorers: what scores it.
        options: which columns.
        ini: moses.ini of the table, if there is one to patch.
        ini_out: the ini to write.
        resume: continue where an earlier run was stopped.

    Returns:
        Lines for the user: what was written, and what Moses must be told.

    Raises:
        InputError: a row is malformed, or the ini does not belong to the table.
        ConfigError: the options do not fit together.
    """
    _check(table, out, ini, ini_out)
    planned_columns(scorers, options)
    if ini is not None:
        first = next(read_rows(table), None)
        check_ini(ini, Path(table), len(first.scores) if first else 0)
    report = add_columns(table, out, scorers, options, resume)
    lines = _summary(out, report)
    if ini is not None and ini_out is not None:
        patch_ini(ini, ini_out, Path(table), Path(out), report)
        lines.append(f"{ini_out}: num-features, path and weights of the phrase table changed")
    if out != STANDARD_STREAM:
        lines += _advice(Path(out), report)
    return lines


def _check(table: str, out: str, ini: Path | None, ini_out: Path | None) -> None:
    if (ini is None) != (ini_out is None):
        raise ConfigError("--ini and --ini-out belong together")
    if ini is not None and STANDARD_STREAM in (table, out):
        raise ConfigError("an ini can be patched for files only, not for standard streams")
    if table != STANDARD_STREAM and Path(table).resolve() == Path(out).resolve():
        raise ConfigError("the table to write is the one to read: the input is never modified")


def _summary(out: str, report: ColumnReport) -> list[str]:
    lines = [f"{out}: {report.n_rows:,} rows, {report.n_scores} scores each"]
    for number, ((column, name), n_floored) in enumerate(
        zip(report.columns, report.n_floored, strict=True), start=report.n_old_scores + 1
    ):
        floored = f", {n_floored:,} rows raised to {LOWEST_PROB:g}" if n_floored else ""
        lines.append(f"  score {number}: {column} of {name}{floored}")
    return lines


def _advice(out: Path, report: ColumnReport) -> list[str]:
    commands = binary_table_commands(out, report)
    return [
        "Binary tables must be told the number of scores"
        " (rows in the order of LC_ALL=C sort for the first):",
        *(f"  {command}" for command in commands),
        "Remove what an earlier tuning made of the old table: filtered/ and features.list.",
    ]
