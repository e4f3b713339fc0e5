"""Shards of a table with added columns, joined."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import open_write_packed, read_lines, write_lines
from rescorer.tables.report import (
    ColumnReport,
    bad_rows_path,
    read_sidecar,
    sidecar_path,
    write_sidecar,
)

Part = tuple[Path, dict[str, Any], ColumnReport]


def merged(
    parts: Sequence[Path], out: Path, command: str = ""
) -> tuple[dict[str, Any], ColumnReport]:
    """Write the table whose shards the parts are; its rows are those of an undivided run.

    Compressed files behind one another are one to every reader, so nothing is compressed again.

    Args:
        parts: all shards, in any order.
        out: the table to write.
        command: the command line, for the record.

    Returns:
        What the scores were made with, and the report on the whole table.

    Raises:
        InputError: a shard is missing, comes twice, or is of another table, model or setting.
        ConfigError: out has another suffix than the parts.
    """
    read = [(part, *read_sidecar(part)) for part in parts]
    ordered = _in_order(read)
    for part, _, _ in ordered:
        if part.suffix != out.suffix:
            raise ConfigError(f"{out} must have the suffix of the parts ({part.name})")
    _check_bad_rows(ordered, ordered[0][1]["max_bad_rows"])
    with open_write_packed(out) as stream:
        for part, _, _ in ordered:
            with part.open("rb") as packed:
                shutil.copyfileobj(packed, stream, 1 << 20)
    settings = {**ordered[0][1], "shard": None}
    report = _sum_of([report for _, _, report in ordered])
    write_sidecar(out, settings, report, command)
    if report.n_bad_rows:
        write_lines(bad_rows_path(out), _bad_rows(ordered))
    return settings, report


def _in_order(parts: Sequence[Part]) -> list[Part]:
    """The parts by the number of their shard, if they are all shards of one table."""
    _, first_settings, first_report = parts[0]
    for path, settings, report in parts:
        if not settings["shard"]:
            raise _unfit(path, "a whole table", "a shard, made with --shard I/N")
        if _common(settings) != _common(first_settings) or _shape(report) != _shape(first_report):
            raise _unfit(path, "other settings", f"the table, models and options of {parts[0][0]}")
    ordered = sorted(parts, key=lambda part: part[1]["shard"][0])
    numbers = [settings["shard"][0] for _, settings, _ in ordered]
    n_shards = first_settings["shard"][1]
    if numbers != list(range(1, n_shards + 1)):
        found = f"shards {', '.join(map(str, numbers))} of {n_shards}"
        raise _unfit(parts[0][0], found, f"each of 1 to {n_shards} once")
    return ordered


def _unfit(part: Path, found: str, expected: str) -> InputError:
    return InputError(sidecar_path(part), None, found, expected)


def _common(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What all shards share: everything but the shard's own number."""
    return {**settings, "shard": settings["shard"] and settings["shard"][1]}


def _shape(report: ColumnReport) -> tuple[object, ...]:
    """What the rows of all shards have in common."""
    return report.n_old_scores, report.columns


def _check_bad_rows(parts: Sequence[Part], limit: int) -> None:
    """Refuse more malformed rows in all shards together than one run would have left out."""
    n_bad_rows = sum(report.n_bad_rows for _, _, report in parts)
    if n_bad_rows > limit:
        path = bad_rows_path(next(path for path, _, report in parts if report.n_bad_rows))
        found = f"{n_bad_rows} malformed rows in all shards (the first ones here)"
        hint = f"Mend the table, or score the shards with --skip-bad {n_bad_rows}"
        raise InputError(path, None, found, f"at most {limit}, as --skip-bad said", hint)


def _sum_of(reports: Sequence[ColumnReport]) -> ColumnReport:
    return replace(
        reports[0],
        n_rows=sum(report.n_rows for report in reports),
        n_floored=tuple(map(sum, zip(*(report.n_floored for report in reports), strict=True))),
        n_bad_rows=sum(report.n_bad_rows for report in reports),
    )


def _bad_rows(parts: Sequence[Part]) -> Iterator[bytes]:
    for path, _, report in parts:
        if report.n_bad_rows:
            yield from read_lines(bad_rows_path(path))
