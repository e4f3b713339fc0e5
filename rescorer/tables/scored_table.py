"""`rescorer score`: a run prepared once and written block by block, and advice for the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from moses_bridge.base.blocks import map_in_order
from moses_bridge.base.compiled.notice import CompilationNotice
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.textio import Place, Stream, place_of, write_lines
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.block_scoring import Executor, score_block
from rescorer.tables.column import ColumnConfig, check_columns
from rescorer.tables.pair_values import within
from rescorer.tables.partial_file import open_blocks
from rescorer.tables.record import Content, Counts, RunRecord, bad_rows_of, sidecar_of
from rescorer.tables.source_table import SourceTable

if TYPE_CHECKING:
    from moses_bridge.formats.moses_ini import MosesIni
    from rescorer.tables.ini_patch import IniPatch

# Names the code to compile.
ROW_BYTES = "the reading and writing of rows (some seconds)"


@dataclass(frozen=True)
class Run:
    """A run checked except for its rows; made by `Run.prepare`.

    The record has everything its new bytes depend on, with counts of 0; the table is opened for the
    rows to score. Each scorer has one group of columns. With resume an interrupted run with the
    same settings is continued.
    """

    record: RunRecord
    table: SourceTable
    out: Place
    scorers: tuple[NamedScorer, ...]
    ini: IniPatch | None = None
    resume: bool = False

    @classmethod
    def prepare(
        cls,
        path: str,
        out: str,
        scorers: Sequence[NamedScorer],
        config: ColumnConfig,
        ini: Path | None = None,
        ini_out: Path | None = None,
        resume: bool = False,
        replace: bool = False,
    ) -> Run:
        """Open a table, and check everything but its other rows; see `score_table`.

        Raises:
            InputError: the first row is malformed or lacks what a scorer needs, the ini does not
                belong to the table, or TABLE.json is missing and there are columns to replace.
            ConfigError: the settings do not fit together.
        """
        source, target = place_of(path), place_of(out)
        _refuse_streams(source, target, config, resume, replace)
        old_ini = check_places([source], target, ini, ini_out)
        if config.shard:
            if ini is not None:
                raise ConfigError(
                    "the ini of shards is written by `rescorer merge`: leave --ini out here"
                )
            shard = dataclasses.replace(config.shard, block_rows=config.block_rows)
            config = dataclasses.replace(config, shard=shard)
        check_columns(scorers, config)
        are_probs = config.column_format == "prob"
        table = SourceTable.open(source, config.max_bad_rows, config.shard, are_probs)
        if replace:
            config = RunRecord.read(path).replaced_by(table.n_scores, config)
        patch = None
        if old_ini is not None and ini_out is not None:
            from rescorer.tables.ini_patch import IniPatch

            patch = IniPatch.of(old_ini, ini_out, Path(path), Path(out))
            patch.check(table.n_scores, path)
        _check_first_row(path, table, scorers, config)
        record = RunRecord(
            path,
            table.identity,
            out,
            tuple((named.name, named.fingerprint) for named in scorers),
            config,
            table.n_scores - config.n_replaced,
            table.has_alignment,
        )
        return cls(record, table, target, tuple(scorers), patch, resume)

    def finish(self, progress: Mapping[str, int], command: str = "") -> RunRecord:
        """Write OUT.json and OUT.bad next to a finished table; progress is that of its sink."""
        n_floored = tuple(
            progress[f"floored {place}"] for place, _ in enumerate(self.record.columns)
        )
        bad_rows = self.table.bad_rows.rows
        counts = Counts(progress["rows"], n_floored, len(bad_rows), progress["bad"])
        content = None
        if self.record.config.shard and not isinstance(self.out, Stream):
            content = Content.of(self.out)
        record = dataclasses.replace(self.record, counts=counts, content=content)
        if not isinstance(self.out, Stream):
            record.write(command)
        if bad_rows:
            write_lines(record.bad_rows, bad_rows)
        return record


def _refuse_streams(
    source: Place, target: Place, config: ColumnConfig, resume: bool, replace: bool
) -> None:
    if isinstance(source, Stream):
        if config.shard:
            raise ConfigError("standard input or a pipe cannot be scored in shards: name a file")
        if replace:
            raise ConfigError("columns can be replaced only in a file, with TABLE.json beside it")
    elif not isinstance(target, Stream):
        return
    if resume:
        raise ConfigError("a run on standard input or output, a pipe or a device cannot be resumed")
    if config.max_bad_rows and isinstance(target, Stream):
        raise ConfigError("bad rows go to a file beside the table: name one, not standard output")


def _check_first_row(
    path: str, table: SourceTable, scorers: Sequence[NamedScorer], config: ColumnConfig
) -> None:
    for named in scorers:
        if named.scorer.needs_links and not table.has_alignment:
            expected = f"an alignment column (the fourth), which {named.name} needs"
            hint = "Let Moses's `score` or `moses-bridge build` write it"
            raise InputError(path, None, "no word links", expected, hint)
    if table.n_scores <= config.n_replaced:
        expected = f"more than the {config.n_replaced} to replace"
        raise InputError(path, None, f"{table.n_scores} scores", expected)


def check_places(
    tables: Sequence[Place], out: Place, ini: Path | None, ini_out: Path | None
) -> MosesIni | None:
    """Refuse outputs that are inputs, and read the ini to patch, if any.

    Raises:
        ConfigError: the paths do not fit together.
        InputError: the ini is missing or malformed.
    """
    if (ini is None) != (ini_out is None):
        raise ConfigError("--ini and --ini-out belong together")
    for path in (out, ini_out):
        if path is not None and Path(path).is_dir():
            raise ConfigError(f"{path} is a directory: name a file to write")
    if ini is not None and any(isinstance(place, Stream) for place in (*tables, out)):
        raise ConfigError("an ini can be patched for files only, not for standard streams or pipes")
    old_ini = None
    if ini is not None:
        from moses_bridge.formats.moses_ini import read_ini  # many runs have none

        old_ini = read_ini(ini)
    beside = [] if isinstance(out, Stream) else [sidecar_of(str(out)), bad_rows_of(str(out))]
    records = [sidecar_of(str(table)) for table in tables]
    files = [] if old_ini is None else old_ini.files()
    refuse_overwriting([out, *beside, *filter(None, [ini_out])], [*tables, *records, *files])
    return old_ini


def report(record: RunRecord, out: Place, patch: IniPatch | None) -> list[str]:
    """Patch the ini of a finished table, and return what was written and the next steps for Moses.

    Raises:
        InputError: the ini does not belong to the table.
    """
    columns = [column for column, _ in record.columns]
    patched = [] if patch is None else [patch.write(record.n_old_scores, columns)]
    lines = [*record.summary(), *patched]
    if not isinstance(out, Stream) and not record.config.shard:
        lines += [
            "Binary tables need the number of scores"
            " (and the first command needs rows in the order of LC_ALL=C sort):",
            *(f"  {command}" for command in record.binary_table_commands()),
            "mert-moses.pl keeps files of the old table: remove filtered/ and features.list before it.",
        ]
    return lines


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

    The arguments are those of `rescorer.rescore`, and the command line, for the record. Malformed
    rows left out are written to OUT.bad; columns to replace are listed in TABLE.json, and keep
    their format. The returned lines are for the user: the files written, and the next steps for
    Moses.

    Raises:
        InputError: a row is malformed, the ini does not belong to the table, or TABLE.json is
            missing and there are columns to replace.
        ConfigError: the settings do not fit together.
        UserError: a value is not finite, or another command is writing the table.
    """
    run = Run.prepare(path, out, scorers, config, ini, ini_out, resume, replace)
    return report(add_columns(run, command, executor), run.out, run.ini)


def add_columns(run: Run, command: str = "", executor: Executor | None = None) -> RunRecord:
    """Write the table with new dense scores after each row's scores; every other byte stays.

    Next to it are OUT.json, the record of the run (which is returned), and OUT.bad, the malformed
    rows left out. With "-" the table is written to standard output. A run writing there, to a pipe
    or to a device cannot be resumed and writes no other file. Without an executor the blocks are
    scored in this process.

    Raises:
        InputError: a row is malformed, or lacks what a scorer needs.
        UserError: a value is not finite, or another command is writing the table.
    """
    config = run.record.config
    settings = run.record.settings | {"max_bad_rows": 0}
    with open_blocks(run.out, settings, run.resume) as sink:
        n_done = sink.progress["rows"]
        blocks = run.table.blocks(config.block_rows, n_done)
        if executor is None:
            score = partial(score_block, run.record, run.scorers)
            scored = map_in_order(score, blocks, config.jobs)
        else:
            scored = executor(run.record, blocks)
        n_parts = config.shard.n_shards if config.shard else 1
        progress = LineProgress("score", run.record.path, done=n_done, n_parts=n_parts)
        with CompilationNotice(ROW_BYTES), progress:
            found = ((block, block.bad) for block in scored)
            for block in within(config.max_bad_rows, found, sink.progress):
                sink.append(block.data, block.counts)
                progress.update(block.counts["rows"])
            sink.publish()
        return run.finish(sink.progress, command)
