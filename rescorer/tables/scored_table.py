"""The whole of `rescorer score`: a table with columns, what is written beside it, and advice for the user."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from moses_bridge.base.ordered_map import map_in_order
from moses_bridge.base.progress import LineProgress
from moses_bridge.compiled.notice import CompilationNotice
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.block_scoring import Executor, score_block
from rescorer.tables.column import ColumnConfig
from rescorer.tables.record import RunRecord
from rescorer.tables.run import Run, report

# The compiled code, and the number of its functions with numba 0.68.
ROW_BYTES = "the reading and writing of rows (some seconds)"


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
        out: the table to write, compressed by suffix.
        scorers: one group of columns for each.
        config: settings of the columns; malformed rows left out are written to OUT.bad.
        ini: moses.ini of the table; None to patch none.
        ini_out: the ini to write.
        resume: continue where an earlier run with the same settings was stopped.
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
    run = Run.prepare(path, out, scorers, config, ini, ini_out, resume, replace)
    return report(add_columns(run, command, executor), run.out, run.ini)


def add_columns(run: Run, command: str = "", executor: Executor | None = None) -> RunRecord:
    """Write the table with new dense scores at the end of each row's scores; every other byte stays.

    Beside it are OUT.json, the record of the run, and OUT.bad, the malformed rows left out. With "-" the
    table is written to standard output. A run writing there, to a pipe or to a device cannot be resumed
    and writes no other file.

    Args:
        run: the run, prepared.
        command: the command line, for the record.
        executor: scores the blocks; None scores them in this process.

    Returns:
        The record of the run with its counts.

    Raises:
        InputError: a row is malformed, or lacks what a scorer needs.
        UserError: a value is not finite, or another command is writing the table.
    """
    config = run.record.config
    with run.sink() as sink:
        n_done = sink.progress["rows"]
        if executor is None:
            score = partial(score_block, run.record, run.scorers)
            scored = map_in_order(score, run.blocks(n_done), config.jobs)
        else:
            scored = executor(run.record, run.blocks(n_done))
        n_parts = config.shard.n_shards if config.shard else 1
        progress = LineProgress("score", run.record.path, done=n_done, n_parts=n_parts)
        with CompilationNotice(ROW_BYTES), progress:
            for block in scored:
                sink.append(block.data, block.counts)
                progress.update(block.counts["rows"])
            sink.publish()
        return run.finish(sink.progress, command)
