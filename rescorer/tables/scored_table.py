"""The whole of `rescorer score`: table, moses.ini, and what the user should know of both."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from moses_bridge.errors import ConfigError, InputError
from moses_bridge.textio import STANDARD_STREAM, is_stream, read_lines
from rescorer.tables.column import (
    ColumnOptions,
    NamedScorer,
    add_columns,
    planned_columns,
    row_shape,
)
from rescorer.tables.ini_patch import binary_table_commands, check_ini, patch_ini
from rescorer.tables.merging import merged
from rescorer.tables.report import (
    LOWEST_PROB,
    ColumnFormat,
    ColumnReport,
    bad_rows_path,
    read_sidecar,
    sidecar_path,
)
from rescorer.tables.rows import BadRows


def score_table(
    table: str,
    out: str,
    scorers: Sequence[NamedScorer],
    options: ColumnOptions,
    ini: Path | None = None,
    ini_out: Path | None = None,
    resume: bool = False,
    replace: bool = False,
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
        replace: put the columns in the place of those that an earlier run added to the table, as
            TABLE.json says.

    Returns:
        Lines for the user: what was written, and what Moses must be told.

    Raises:
        InputError: a row is malformed, the ini does not belong to the table, or the table has no
            TABLE.json that says what to replace.
        ConfigError: the options do not fit together.
    """
    _check([table], out, ini, ini_out)
    if options.shard and ini is not None:
        raise ConfigError("the ini of shards is written by `rescorer merge`: leave --ini out here")
    if replace and is_stream(table):
        raise ConfigError("columns can be replaced in a file only, beside which TABLE.json stands")
    if replace:
        n_replaced = n_added(Path(table), options.max_bad_rows)
        options = dataclasses.replace(options, n_replaced=n_replaced)
    planned_columns(scorers, options)
    if ini is not None and ini_out is not None:
        n_scores = _n_scores(table, options.max_bad_rows)
        check_ini(ini, ini_out, Path(table), Path(out), n_scores)
    report = add_columns(table, out, scorers, options, resume)
    lines = _summary(out, report)
    if ini is not None and ini_out is not None:
        lines += _patched(ini, ini_out, Path(table), Path(out), report)
    if not is_stream(out) and not options.shard:
        lines += _advice(Path(out), report, options.column_format)
    return lines


def n_added(table: Path, max_bad_rows: int = 0) -> int:
    """The number of columns that an earlier run added to a table.

    Raises:
        InputError: the table has no TABLE.json, or rows of another width than it says.
    """
    _, report = read_sidecar(table)
    n_scores = _n_scores(str(table), max_bad_rows)
    if n_scores != report.n_scores:
        expected = f"{report.n_scores}, as {sidecar_path(table)} says"
        raise InputError(table, 1, f"{n_scores} scores", expected)
    return len(report.columns)


def _n_scores(table: str, max_bad_rows: int) -> int:
    """Dense scores of the first row, malformed ones left out."""
    rows = BadRows(max_bad_rows).left_out(enumerate(read_lines(table), start=1), table)
    for _, line in rows:
        return row_shape(line)[0]
    raise InputError(table, None, "no row", "a phrase table")


def merge_shards(
    parts: Sequence[Path], out: Path, ini: Path | None = None, ini_out: Path | None = None
) -> list[str]:
    """Join the shards of a table and patch its moses.ini.

    Args:
        parts: what `rescorer score --shard` wrote, in any order.
        out: the table to write, with the suffix of the parts.
        ini: moses.ini of the table that was scored, if there is one to patch.
        ini_out: the ini to write.

    Returns:
        Lines for the user, as of `score_table`.

    Raises:
        InputError: a shard is missing, comes twice or is of another table or model.
        ConfigError: the options do not fit together.
    """
    _check([str(part) for part in parts], str(out), ini, ini_out)
    settings, report = merged(parts, out)
    table = Path(settings["table"]["path"])
    lines = _summary(str(out), report)
    if ini is not None and ini_out is not None:
        lines += _patched(ini, ini_out, table, out, report)
    return lines + _advice(out, report, settings["column_format"])


def _patched(ini: Path, ini_out: Path, table: Path, out: Path, report: ColumnReport) -> list[str]:
    patch_ini(ini, ini_out, table, out, report)
    return [f"{ini_out}: num-features, path and weights of the phrase table changed"]


def _check(tables: Sequence[str], out: str, ini: Path | None, ini_out: Path | None) -> None:
    if (ini is None) != (ini_out is None):
        raise ConfigError("--ini and --ini-out belong together")
    for path in (out, ini_out):
        if path is not None and Path(path).is_dir():
            raise ConfigError(f"{path} is a directory: name a file to write")
    if ini is not None and any(map(is_stream, (*tables, out))):
        raise ConfigError("an ini can be patched for files only, not for standard streams or pipes")
    named = {Path(path).resolve() for path in (*tables, ini) if path is not None}
    for path in (out, ini_out):
        if path is None or str(path) == STANDARD_STREAM:
            continue
        if Path(path).resolve() in named:
            raise ConfigError(
                f"{path} is named twice: the input is never modified, and each output has a file"
            )
        named.add(Path(path).resolve())


def _summary(out: str, report: ColumnReport) -> list[str]:
    lines = [f"{out}: {report.n_rows:,} rows, {report.n_scores} scores each"]
    for number, ((column, name), n_floored) in enumerate(
        zip(report.columns, report.n_floored, strict=True), start=report.n_old_scores + 1
    ):
        floored = f", {n_floored:,} rows raised to {LOWEST_PROB:g}" if n_floored else ""
        lines.append(f"  score {number}: {column} of {name}{floored}")
    if report.n_bad_rows:
        lines.append(
            f"{bad_rows_path(Path(out))}: {report.n_bad_rows:,} malformed rows that were left out"
        )
    return lines


def _advice(out: Path, report: ColumnReport, column_format: ColumnFormat) -> list[str]:
    commands = binary_table_commands(out, report, column_format)
    return [
        "Binary tables must be told the number of scores"
        " (rows in the order of LC_ALL=C sort for the first):",
        *(f"  {command}" for command in commands),
        "Remove what an earlier tuning made of the old table: filtered/ and features.list.",
    ]
