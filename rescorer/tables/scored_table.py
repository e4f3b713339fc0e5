"""The whole of `rescorer score`: table, moses.ini, and what the user should know of both."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import STANDARD_STREAM, is_stream
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.block_scoring import Elsewhere
from rescorer.tables.column import ColumnConfig, add_columns, planned_columns
from rescorer.tables.ini_patch import binary_table_commands, patch_ini, refuse_unfit_ini
from rescorer.tables.merging import merged
from rescorer.tables.report import (
    LOWEST_PROB,
    ColumnFormat,
    ColumnReport,
    bad_rows_path,
    read_sidecar,
    sidecar_path,
)
from rescorer.tables.rows import Shard
from rescorer.tables.source_table import SourceTable


def score_table(
    path: str,
    out: str,
    scorers: Sequence[NamedScorer],
    config: ColumnConfig,
    max_bad_rows: int = 0,
    shard: Shard | None = None,
    ini: Path | None = None,
    ini_out: Path | None = None,
    resume: bool = False,
    replace: bool = False,
    command: str = "",
    elsewhere: Elsewhere | None = None,
) -> list[str]:
    """Add columns to a table and patch its moses.ini; see `column.add_columns`.

    Args:
        path: the phrase table.
        out: the table to write.
        scorers: what scores it.
        config: which columns.
        max_bad_rows: so many malformed rows at most go to OUT.bad instead of ending the run.
        shard: the part of the table to score; None for all of it.
        ini: moses.ini of the table, if there is one to patch.
        ini_out: the ini to write.
        resume: continue where an earlier run was stopped.
        replace: put the columns in the place of those that an earlier run added to the table, as
            TABLE.json says, and in their format.
        command: the command line, for the record.
        elsewhere: scores the blocks; None for the scorers here.

    Returns:
        Lines for the user: what was written, and what Moses must be told.

    Raises:
        InputError: a row is malformed, the ini does not belong to the table, or the table has no
            TABLE.json that says what to replace.
        ConfigError: the settings do not fit together.
    """
    _check_paths([path], out, ini, ini_out)
    if shard and is_stream(path):
        raise ConfigError("standard input or a pipe cannot be scored in shards: name a file")
    if shard and ini is not None:
        raise ConfigError("the ini of shards is written by `rescorer merge`: leave --ini out here")
    if replace and is_stream(path):
        raise ConfigError("columns can be replaced in a file only, beside which TABLE.json stands")
    planned_columns(scorers, config)
    table = SourceTable.open(path, max_bad_rows, shard)
    if replace:
        config = replacing(table, config)
    if ini is not None and ini_out is not None:
        refuse_unfit_ini(ini, ini_out, Path(path), Path(out), table.n_scores)
    report = add_columns(table, out, scorers, config, resume, command, elsewhere)
    lines = _summary(out, report)
    if ini is not None and ini_out is not None:
        lines += _patched(ini, ini_out, Path(path), Path(out), report)
    if not is_stream(out) and not shard:
        lines += _advice(Path(out), report, config.column_format)
    return lines


def replacing(table: SourceTable, config: ColumnConfig) -> ColumnConfig:
    """The settings with which new columns take the place of those that an earlier run added.

    Raises:
        InputError: the table has no TABLE.json, or rows of another width than it says.
        ConfigError: the earlier columns have another format than the new ones.
    """
    settings, report = read_sidecar(Path(table.path))
    if table.n_scores != report.n_scores:
        expected = f"{report.n_scores}, as {sidecar_path(Path(table.path))} says"
        raise InputError(table.path, 1, f"{table.n_scores} scores", expected)
    earlier = settings.get("column_format", config.column_format)
    if earlier != config.column_format:
        raise ConfigError(
            f"the columns to replace have the format {earlier!r}, as {sidecar_path(Path(table.path))}"
            f" says: score with --column-format {earlier}"
        )
    return dataclasses.replace(config, n_replaced=len(report.columns))


def merge_shards(
    parts: Sequence[Path],
    out: Path,
    ini: Path | None = None,
    ini_out: Path | None = None,
    command: str = "",
) -> list[str]:
    """Join the shards of a table and patch its moses.ini.

    Args:
        parts: what `rescorer score --shard` wrote, in any order.
        out: the table to write, with the suffix of the parts.
        ini: moses.ini of the table that was scored, if there is one to patch.
        ini_out: the ini to write.
        command: the command line, for the record.

    Returns:
        Lines for the user, as of `score_table`.

    Raises:
        InputError: a shard is missing, comes twice or is of another table or model.
        ConfigError: the options do not fit together.
    """
    _check_paths([str(part) for part in parts], str(out), ini, ini_out)
    settings, report = merged(parts, out, command)
    table = Path(settings["table"]["path"])
    lines = _summary(str(out), report)
    if ini is not None and ini_out is not None:
        lines += _patched(ini, ini_out, table, out, report)
    return lines + _advice(out, report, settings["column_format"])


def _patched(ini: Path, ini_out: Path, table: Path, out: Path, report: ColumnReport) -> list[str]:
    patch_ini(ini, ini_out, table, out, report)
    return [f"{ini_out}: num-features, path and weights of the phrase table changed"]


def _check_paths(tables: Sequence[str], out: str, ini: Path | None, ini_out: Path | None) -> None:
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
