"""Joining complete shards of a table with added columns."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.lock import held_file
from moses_bridge.base.textio import (
    open_write_packed,
    place_of,
    read_lines,
    read_pieces,
    write_lines,
)
from rescorer.tables.ini_patch import IniPatch
from rescorer.tables.record import Content, Counts, RunRecord
from rescorer.tables.scored_table import check_places, report


def merge_shards(
    parts: Sequence[Path],
    out: Path,
    ini: Path | None = None,
    ini_out: Path | None = None,
    command: str = "",
) -> list[str]:
    """Join the shards of a table and patch its moses.ini, if any.

    The parts are tables of `rescorer score --shard`, in any order; out has their suffix. The
    options and the returned lines are those of `score_table`.

    Raises:
        InputError: a shard is missing, named twice, damaged or of another table or model, or the
            ini does not belong to the table.
        ConfigError: the options do not fit together.
    """
    place, patch = place_of(out), None
    old_ini = check_places([place_of(part) for part in parts], place, ini, ini_out)
    records = in_order(parts)
    if old_ini is not None and ini_out is not None:
        scored = records[0]
        patch = IniPatch.of(old_ini, ini_out, Path(scored.path), out)
        patch.check(scored.n_old_scores + scored.config.n_replaced, scored.path)
    return report(merged(records, out, command), place, patch)


def merged(ordered: Sequence[RunRecord], out: Path, command: str = "") -> RunRecord:
    """Join the shards of a table, in their order; return the record of the equivalent undivided run.

    Every reader takes concatenated compressed files for one file, so nothing is compressed again.
    If each shard has at least two blocks of rows and no malformed rows were left out, the file is
    that of an undivided run, byte for byte. Otherwise blocks begin at other rows, and a value may
    differ in its seventh digit.

    Raises:
        InputError: a shard differs from its record.
        ConfigError: out has another suffix than the parts.
        UserError: another command is writing the table.
    """
    for part in ordered:
        if Path(part.out).suffix != out.suffix:
            name = Path(part.out).name
            raise ConfigError(f"{out} must have the suffix of the parts ({name})")
    _check_bad_rows(ordered, ordered[0].config.max_bad_rows)
    for part in ordered:
        _check_content(part)
    config = replace(ordered[0].config, shard=None)
    counts = _sum_of(ordered)
    run = replace(ordered[0], out=str(out), config=config, counts=counts, content=None)
    with held_file(out):
        with open_write_packed(out) as stream:
            for part in ordered:
                with open(part.out, "rb") as packed:
                    shutil.copyfileobj(packed, stream, 1 << 20)
        run.write(command)
        if run.counts.n_bad_rows:
            left_out = (read_lines(part.bad_rows) for part in ordered if part.counts.n_bad_rows)
            write_lines(run.bad_rows, chain.from_iterable(left_out))
    return run


def _check_content(part: RunRecord) -> None:
    """Refuse a changed part; the rows are counted of one recorded without a digest."""
    path, recorded = Path(part.out), part.content
    if recorded is None:
        _check_rows(path, part)
        return
    try:
        n_bytes = path.stat().st_size
    except OSError as error:
        raise InputError(path, None, error.strerror or str(error), "a part of a table") from error
    if n_bytes != recorded.n_bytes:
        raise _damaged(path, f"{n_bytes:,} bytes", f"{recorded.n_bytes:,}, as {part.sidecar} says")
    if Content.of(path) != recorded:
        found = "other bytes than were written"
        raise _damaged(path, found, f"the bytes with the digest in {part.sidecar}")


def _check_rows(path: Path, part: RunRecord) -> None:
    n_rows, last = 0, b"\n"
    for piece in read_pieces(path):
        n_rows, last = n_rows + piece.count(b"\n"), piece[-1:]
    if n_rows != part.counts.n_rows or last != b"\n":
        ended = "" if last == b"\n" else " and a row without its end"
        expected = f"{part.counts.n_rows:,}, as {part.sidecar} says"
        raise _damaged(path, f"{n_rows:,} rows{ended}", expected)


def _damaged(path: Path, found: str, expected: str) -> InputError:
    return InputError(path, None, found, expected, "Copy the part again, or score it again")


def in_order(paths: Sequence[Path]) -> list[RunRecord]:
    """The records of some parts in the order of their shards.

    Raises:
        InputError: they are anything but all shards of one table, each once, with the same settings.
    """
    parts = [RunRecord.read(str(path)) for path in paths]
    shards = []
    for part in parts:
        if part.config.shard is None:
            raise _unfit(part, "a whole table", "a shard, made with --shard I/N")
        if _common(part) != _common(parts[0]):
            raise _unfit(part, "other settings", f"the table, models and options of {parts[0].out}")
        shards.append(part.config.shard)
    numbers, n_shards = sorted(shard.number for shard in shards), shards[0].n_shards
    if numbers != list(range(1, n_shards + 1)):
        found = f"shards {', '.join(map(str, numbers))} of {n_shards}"
        raise _unfit(parts[0], found, f"each of 1 to {n_shards} once")
    by_number = {shard.number: part for shard, part in zip(shards, parts, strict=True)}
    return [by_number[number] for number in numbers]


def _unfit(part: RunRecord, found: str, expected: str) -> InputError:
    return InputError(part.sidecar, None, found, expected)


def _common(part: RunRecord) -> tuple[object, ...]:
    """The settings common to all shards: everything but the shard's own number and counts."""
    shard = part.config.shard
    settings = {**part.settings, "shard": shard and (shard.n_shards, shard.block_rows)}
    return settings, part.n_old_scores, part.columns


def _check_bad_rows(parts: Sequence[RunRecord], limit: int) -> None:
    """Refuse more malformed rows in all shards together than one run would have left out."""
    n_bad_rows = sum(part.counts.n_bad_rows for part in parts)
    if n_bad_rows > limit:
        path = next(part.bad_rows for part in parts if part.counts.n_bad_rows)
        found = f"{n_bad_rows} malformed rows in all shards (the first ones here)"
        hint = f"Mend the table, or score the shards with --skip-bad {n_bad_rows}"
        raise InputError(path, None, found, f"at most {limit}, as --skip-bad said", hint)


def _sum_of(parts: Sequence[RunRecord]) -> Counts:
    counts = [part.counts for part in parts]
    return Counts(
        sum(each.n_rows for each in counts),
        tuple(map(sum, zip(*(each.n_floored for each in counts), strict=True))),
        sum(each.n_bad_rows for each in counts),
        sum(each.n_unscored for each in counts),
    )
