"""The whole of `rescorer score` and `rescorer merge`: table, moses.ini, and advice for the user."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.lock import held_file
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.textio import is_stream, write_lines
from moses_bridge.compiled.notice import CompilationNotice
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.phrase_table import Block, blocks_of_rows
from rescorer.contract.parallel import map_in_order
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.block_scoring import Executor, ScoredBlock, score_block
from rescorer.tables.column import ColumnConfig, check_columns
from rescorer.tables.ini_patch import binary_table_commands, patch_ini, refuse_unfit_ini
from rescorer.tables.merging import merged
from rescorer.tables.partial_file import PartialFile, StreamOutput
from rescorer.tables.rows import Shard
from rescorer.tables.run import Content, Counts, Run, bad_rows_of, read_run, sidecar_of
from rescorer.tables.source_table import SourceTable

# The compiled code, and the number of its functions with numba 0.68.
ROW_BYTES = "the reading and writing of rows (some seconds)", 14


def score_table(
    path: str,
    out: str,
    scorers: Sequence[NamedScorer],
    config: ColumnConfig,
    ini: Path | None = None,
    ini_out: Path | None = None,
    resume: bool = False,
    replace: bool = False,
    command: str = "",
    executor: Executor | None = None,
) -> list[str]:
    """Add columns to a table and patch its moses.ini; see `add_columns`.

    Args:
        path: the phrase table.
        out: the table to write.
        scorers: the scorers.
        config: settings of the columns; malformed rows left out are written to OUT.bad.
        ini: moses.ini of the table; None to patch none.
        ini_out: the ini to write.
        resume: continue where an earlier run was stopped.
        replace: replace the columns listed in TABLE.json, in their format, instead of appending.
        command: the command line, for the record.
        executor: scores the blocks; None scores them in this process.

    Returns:
        Lines for the user: what was written, and what to do for Moses.

    Raises:
        InputError: a row is malformed, the ini does not belong to the table, or TABLE.json is missing
            and there are columns to replace.
        ConfigError: the settings do not fit together.
        UserError: a value is not finite, or another command is writing the table.
    """
    _check_paths([path], out, ini, ini_out)
    if config.shard and is_stream(path):
        raise ConfigError("standard input or a pipe cannot be scored in shards: name a file")
    if config.shard and ini is not None:
        raise ConfigError("the ini of shards is written by `rescorer merge`: leave --ini out here")
    if replace and is_stream(path):
        raise ConfigError("columns can be replaced only in a file, with TABLE.json beside it")
    check_columns(scorers, config)
    table = SourceTable.open(path, config.max_bad_rows, _at_blocks(config))
    if replace:
        config = replacing(table, config)
    if ini is not None and ini_out is not None:
        refuse_unfit_ini(ini, ini_out, Path(path), Path(out), table.n_scores)
    run = add_columns(table, out, scorers, config, resume, command, executor)
    return _patched_and_reported(run, ini, ini_out)


def _at_blocks(config: ColumnConfig) -> Shard | None:
    """The shard to score, beginning at a block of a run over the whole table."""
    return config.shard and dataclasses.replace(config.shard, block_rows=config.block_rows)


def replacing(table: SourceTable, config: ColumnConfig) -> ColumnConfig:
    """The settings for replacing the columns added by an earlier run.

    Args:
        table: the table with these columns.
        config: settings of the new columns.

    Raises:
        InputError: TABLE.json is missing, or the rows have another number of scores than it says.
        ConfigError: the earlier columns have another format.
    """
    earlier = read_run(table.path)
    if table.n_scores != earlier.n_scores:
        expected = f"{earlier.n_scores}, as {earlier.sidecar} says"
        raise InputError(table.path, 1, f"{table.n_scores} scores", expected)
    column_format = earlier.config.column_format
    if column_format != config.column_format:
        raise ConfigError(
            f"the columns to replace have the format {column_format!r}, as {earlier.sidecar}"
            f" says: score with --column-format {column_format}"
        )
    return dataclasses.replace(config, n_replaced=len(earlier.columns))


def add_columns(
    table: SourceTable,
    out: str,
    scorers: Sequence[NamedScorer],
    config: ColumnConfig,
    resume: bool = False,
    command: str = "",
    executor: Executor | None = None,
) -> Run:
    """Write the table with new dense scores at the end of each row's scores; every other byte stays.

    Beside it are OUT.json, the record of the run, and OUT.bad, the malformed rows left out. With "-" the
    table is written to standard output. A run writing there, to a pipe or to a device cannot be resumed
    and writes no other file.

    Args:
        table: the table, opened for the rows to score, with equal sources together.
        out: table to write, compressed by suffix.
        scorers: one group of columns for each.
        config: settings of the columns; the table's shard and limit of malformed rows replace those here.
        resume: continue where an earlier run with the same settings was stopped.
        command: the command line, for the record.
        executor: scores the blocks; None scores them in this process.

    Returns:
        The run with its counts.

    Raises:
        InputError: a row is malformed, or lacks what a scorer needs.
        ConfigError: the settings do not fit together.
        UserError: a value is not finite, or another command is writing the table.
    """
    check_columns(scorers, config)
    run = Run.of(table, out, scorers, config)
    _check_run(run, scorers, resume)
    with contextlib.nullcontext() if is_stream(out) else held_file(Path(out)):
        return _write(run, table, scorers, resume, command, executor)


def _write(
    run: Run,
    table: SourceTable,
    scorers: Sequence[NamedScorer],
    resume: bool,
    command: str,
    executor: Executor | None,
) -> Run:
    """Write the table and the files beside it."""
    out, config = run.out, run.config
    blocks = blocks_of_rows(table.rows, run.path, config.block_rows)
    scored = executor or partial(_scored_here, scorers)
    with _sink(run, resume) as sink:
        n_done, n_parts = sink.progress["rows"], table.shard.n_shards if table.shard else 1
        progress = LineProgress("score", run.path, done=n_done, n_parts=n_parts)
        with CompilationNotice(*ROW_BYTES), progress:
            for block in scored(run, _behind(blocks, n_done)):
                sink.append(block.data, block.counts)
                progress.update(block.counts["rows"])
            sink.publish()
    n_floored = tuple(sink.progress[f"floored {place}"] for place in range(len(run.columns)))
    counts = Counts(sink.progress["rows"], n_floored, len(table.bad_rows.rows))
    is_part = config.shard is not None and not is_stream(out)
    content = Content.of(Path(out)) if is_part else None
    run = dataclasses.replace(run, counts=counts, content=content)
    if not is_stream(out):
        run.write_record(command)
    if table.bad_rows.rows:
        write_lines(run.bad_rows, table.bad_rows.rows)
    return run


def _check_run(run: Run, scorers: Sequence[NamedScorer], resume: bool) -> None:
    """Refuse settings that do not fit the table or the output."""
    if resume and (is_stream(run.path) or is_stream(run.out)):
        raise ConfigError("a run on standard input or output, a pipe or a device cannot be resumed")
    if run.config.max_bad_rows and is_stream(run.out):
        raise ConfigError("bad rows go to a file beside the table: name one, not standard output")
    for named in scorers:
        if named.scorer.needs_links and not run.has_alignment:
            raise InputError(
                run.path,
                None,
                "no word links",
                f"an alignment column (the fourth), which {named.name} needs",
                "Let Moses's `score` or `moses-bridge build` write it",
            )
    if run.n_old_scores <= 0:
        n_replaced = run.config.n_replaced
        expected = f"more than the {n_replaced} to replace"
        raise InputError(run.path, None, f"{run.n_old_scores + n_replaced} scores", expected)


def _scored_here(
    scorers: Sequence[NamedScorer], run: Run, blocks: Iterator[Block]
) -> Iterator[ScoredBlock]:
    return map_in_order(partial(score_block, run, scorers), blocks, run.config.jobs)


def _behind(blocks: Iterator[Block], n_rows: int) -> Iterator[Block]:
    """The blocks behind the first n_rows rows."""
    n_earlier = 0
    for block in blocks:
        if n_earlier >= n_rows:
            yield block
        n_earlier += len(block)


def _sink(run: Run, resume: bool) -> PartialFile | StreamOutput:
    if is_stream(run.out):
        return StreamOutput(run.out)
    return PartialFile(Path(run.out), run.settings, resume)


def merge_shards(
    parts: Sequence[Path],
    out: Path,
    ini: Path | None = None,
    ini_out: Path | None = None,
    command: str = "",
) -> list[str]:
    """Join the shards of a table and patch its moses.ini.

    Args:
        parts: the tables written by `rescorer score --shard`, in any order.
        out: the table to write, with the suffix of the parts.
        ini: moses.ini of the scored table; None to patch none.
        ini_out: the ini to write.
        command: the command line, for the record.

    Returns:
        Lines for the user; see `score_table`.

    Raises:
        InputError: a shard is missing, named twice, damaged or of another table or model, or the ini does
            not belong to the table.
        ConfigError: the options do not fit together.
    """
    _check_paths([str(part) for part in parts], str(out), ini, ini_out)
    return _patched_and_reported(merged(parts, out, command), ini, ini_out)


def _check_paths(tables: Sequence[str], out: str, ini: Path | None, ini_out: Path | None) -> None:
    if (ini is None) != (ini_out is None):
        raise ConfigError("--ini and --ini-out belong together")
    for path in (out, ini_out):
        if path is not None and Path(path).is_dir():
            raise ConfigError(f"{path} is a directory: name a file to write")
    if ini is not None and any(map(is_stream, (*tables, out))):
        raise ConfigError("an ini can be patched for files only, not for standard streams or pipes")
    beside = [] if is_stream(out) else [sidecar_of(out), bad_rows_of(out)]
    model = [] if ini is None else read_ini(ini).files()
    refuse_overwriting(
        [out, *beside, *([] if ini_out is None else [ini_out])],
        [*tables, *map(sidecar_of, tables), *model],
    )


def _patched_and_reported(run: Run, ini: Path | None, ini_out: Path | None) -> list[str]:
    """Patch the ini; the lines for the user."""
    lines = _summary(run)
    if ini is not None and ini_out is not None:
        patch_ini(ini, ini_out, run)
        lines.append(f"{ini_out}: num-features, path and weights of the phrase table changed")
    return lines if is_stream(run.out) or run.config.shard else lines + _advice(run)


def _summary(run: Run) -> list[str]:
    lines = [f"{run.out}: {run.counts.n_rows:,} rows, {run.n_scores} scores each"]
    for number, ((column, name), n_floored) in enumerate(
        zip(run.columns, run.counts.n_floored, strict=True), start=run.n_old_scores + 1
    ):
        floored = f", {n_floored:,} rows cut to the least or greatest score" if n_floored else ""
        lines.append(f"  score {number}: {column} of {name}{floored}")
    if n_bad_rows := run.counts.n_bad_rows:
        lines.append(f"{run.bad_rows}: {n_bad_rows:,} malformed rows left out")
    return lines


def _advice(run: Run) -> list[str]:
    return [
        "Binary tables need the number of scores"
        " (and the first command needs rows in the order of LC_ALL=C sort):",
        *(f"  {command}" for command in binary_table_commands(run)),
        "Remove the files of an earlier tuning with the old table: filtered/ and features.list.",
    ]
