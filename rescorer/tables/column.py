"""A phrase table with added columns.

Moses takes the natural logarithm of each dense score of a text table and floors it at -100, and
makes a NaN of a negative one in silence (moses/TranslationModel/RuleTable/LoaderStandard.cpp,
lines 199-205). So what is added is exp of the value that shall count in the log-linear model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.line_progress import LineProgress, track_lines
from moses_bridge.base.textio import is_stream, write_lines
from moses_bridge.compiled.notice import CompilationNotice
from moses_bridge.formats.phrase_table import Block, blocks_of_rows, check_row
from rescorer.contract.parallel import map_in_order
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.block_scoring import (
    BlockScoring,
    Elsewhere,
    Predictions,
    ScoredBlock,
    known_of_rows,
    needs_scores,
    own_values,
)
from rescorer.tables.form import FITTED_FORMS, fit_predictions, needs_fit
from rescorer.tables.partial_file import PartialFile, StreamOutput
from rescorer.tables.prediction import N_SCORES
from rescorer.tables.report import (
    Column,
    ColumnFormat,
    ColumnReport,
    bad_rows_path,
    write_sidecar,
)
from rescorer.tables.row_sample import sample_rows
from rescorer.tables.source_table import SourceTable

# What is compiled, and how many functions that are with numba 0.68.
ROW_BYTES = "the reading and writing of rows (some seconds)", 24


@dataclass(frozen=True)
class ColumnConfig:
    """What to add, and how.

    Attributes:
        columns: of each scorer: "sum" is its value, log p(target | source), "per-word" the same divided by
            the number of target words plus one (</s>), "over-targets" log of p divided by its sum over
            the table's targets of the source, "length-neutral" what is left of the value after a
            prediction from the lengths, "residual" the same after one from the lengths and the table's
            own scores (`rescorer.tables.prediction`), "unknown-words" the number of target words outside
            the shortlist (of the first scorer alone, since models of one table share it).
        column_format: "prob" for Moses and its converters, which take the logarithm; "log" for a table
            whose scores are logarithms already (ProbingPT without --log-prob).
        n_replaced: so many of the last scores of each row are taken off before.
        block_rows: rows that are scored together; the result does not depend on it (to 1e-5).
        jobs: blocks that are scored at a time, each on one processor.
        fit_rows: rows, drawn by chance from the whole table, that predictions are fitted on.
    """

    columns: tuple[Column, ...] = ("sum",)
    column_format: ColumnFormat = "prob"
    n_replaced: int = 0
    block_rows: int = 8192
    jobs: int = 1
    fit_rows: int = 50_000


def add_columns(
    table: SourceTable,
    out: str,
    scorers: Sequence[NamedScorer],
    config: ColumnConfig,
    resume: bool = False,
    command: str = "",
    elsewhere: Elsewhere | None = None,
) -> ColumnReport:
    """Write the table with added dense scores, the last of each row; every other byte stays.

    Beside it OUT.json says which models made which column, and OUT.bad holds the malformed rows that
    were left out. With "-" the table goes to standard output; such a run cannot be resumed, and no file
    stands beside a table that goes there, to a pipe or to a device.

    Args:
        table: equal sources together.
        out: table to write, compressed by suffix.
        scorers: one group of columns for each.
        config: which columns.
        resume: continue where an earlier run of the same settings was stopped.
        command: the command line, for the record.
        elsewhere: scores the blocks; None for the scorers here.

    Raises:
        InputError: a row of the table is not one that Moses reads as it is meant, or lacks what a scorer
            needs.
        ConfigError: the settings do not fit together.
        UserError: a value is not finite.
    """
    columns = planned_columns(scorers, config)
    _check_streams(table, out, resume)
    _check_links(table, scorers)
    if table.n_scores <= config.n_replaced:
        expected = f"more than the {config.n_replaced} to replace"
        raise InputError(table.path, None, f"{table.n_scores} scores", expected)
    predictions = _predictions(table, scorers, config)
    settings = _settings(table, scorers, config, predictions)
    scoring = BlockScoring(
        table.path,
        not table.bad_rows.limit,
        config.columns,
        config.column_format,
        config.n_replaced,
        predictions,
        Path(out),
    )
    scored = elsewhere or partial(_scored_here, scorers, config.jobs)
    blocks = blocks_of_rows(table.rows, table.path, config.block_rows)
    n_parts = table.shard.n_shards if table.shard else 1
    with _sink(out, settings, resume) as sink:
        _write_blocks(
            blocks,
            sink,
            LineProgress("score", table.path, done=sink.progress["rows"], n_parts=n_parts),
            partial(scored, scoring),
        )
    report = ColumnReport(
        n_rows=sink.progress["rows"],
        n_old_scores=table.n_scores - config.n_replaced,
        columns=columns,
        n_floored=tuple(sink.progress[f"floored {i}"] for i in range(len(columns))),
        has_alignment=table.has_alignment,
        n_bad_rows=len(table.bad_rows.rows),
        predictions={
            place: predictions[name][column]
            for place, (column, name) in enumerate(columns)
            if column in FITTED_FORMS
        },
    )
    if not is_stream(out):
        write_sidecar(Path(out), settings, report, command)
    if table.bad_rows.rows:
        write_lines(bad_rows_path(Path(out)), table.bad_rows.rows)
    return report


def _scored_here(
    scorers: Sequence[NamedScorer], jobs: int, scoring: BlockScoring, blocks: Iterator[Block]
) -> Iterator[ScoredBlock]:
    return map_in_order(partial(scoring.scored, scorers), blocks, jobs)


def _check_streams(table: SourceTable, out: str, resume: bool) -> None:
    if resume and (is_stream(table.path) or is_stream(out)):
        raise ConfigError("a run on standard input or output, a pipe or a device cannot be resumed")
    if table.bad_rows.limit and is_stream(out):
        raise ConfigError("bad rows go to a file beside the table: name one, not standard output")


def _check_links(table: SourceTable, scorers: Sequence[NamedScorer]) -> None:
    for named in scorers:
        if named.scorer.needs_links and not table.has_alignment:
            raise InputError(
                table.path,
                None,
                "no word links",
                f"an alignment column (the fourth), which {named.name} needs",
                "Let Moses's `score` or `moses-bridge build` write it",
            )


def _write_blocks(
    blocks: Iterator[Block],
    sink: PartialFile | StreamOutput,
    progress: LineProgress,
    scored: Callable[[Iterator[Block]], Iterator[ScoredBlock]],
) -> None:
    """Score the blocks that an earlier run did not, and write them in their order."""
    with CompilationNotice(*ROW_BYTES), progress:
        for block in scored(_behind(blocks, progress.done)):
            sink.append(block.data, block.counts)
            progress.update(block.counts["rows"])
        sink.publish()


def _behind(blocks: Iterator[Block], n_rows: int) -> Iterator[Block]:
    """The blocks without those that hold the first n_rows rows."""
    n_earlier = 0
    for block in blocks:
        if n_earlier >= n_rows:
            yield block
        n_earlier += len(block)


def _sink(out: str, settings: dict[str, Any], resume: bool) -> PartialFile | StreamOutput:
    return StreamOutput(out) if is_stream(out) else PartialFile(Path(out), settings, resume)


def _predictions(
    table: SourceTable, scorers: Sequence[NamedScorer], config: ColumnConfig
) -> Predictions:
    """The predictions of each scorer's fitted columns, fitted on rows of the whole table."""
    if not needs_fit(config.columns):
        return {named.name: {} for named in scorers}
    _check_fit(table, config)
    whole = SourceTable.open(table.path, table.bad_rows.limit)
    rows = sample_rows(track_lines(whole.rows, "rows to fit on", table.path), config.fit_rows)
    for line_number, line in rows:
        check_row(line, table.path, line_number, table.n_scores)
    (block,) = blocks_of_rows(rows, table.path, config.fit_rows)
    known = known_of_rows(block, config.columns, config.column_format)
    found = {}
    for named in scorers:
        own = own_values(block, named, table.path, None)
        found[named.name] = fit_predictions(config.columns, known, own)
    return found


def _check_fit(table: SourceTable, config: ColumnConfig) -> None:
    if is_stream(table.path):
        names = ", ".join(column for column in config.columns if column in FITTED_FORMS)
        raise ConfigError(f"{names}: fitted on the table's rows first, so it must be a file")
    n_old = table.n_scores - config.n_replaced
    if needs_scores(config.columns) and n_old < N_SCORES:
        raise InputError(
            table.path,
            None,
            f"{n_old} scores",
            f"Moses's {N_SCORES}, which the residual goes by",
            "Use another form of the column",
        )


def planned_columns(
    scorers: Sequence[NamedScorer], config: ColumnConfig
) -> tuple[tuple[Column, str], ...]:
    """The added columns in their order, each with the name of its scorer.

    Raises:
        ConfigError: there is none, one comes twice, or unknown words cannot be counted.
    """
    if len(set(config.columns)) < len(config.columns):
        raise ConfigError(f"a column is named twice: {', '.join(config.columns)}")
    columns = tuple(
        (column, named.name)
        for n_earlier, named in enumerate(scorers)
        for column in config.columns
        if column != "unknown-words" or n_earlier == 0
    )
    if not columns:
        raise ConfigError("no column to add: name a model or a control, and at least one column")
    if "unknown-words" in config.columns and scorers[0].scorer.shortlist is None:
        raise ConfigError(
            f"{scorers[0].name} has no shortlist, so no unknown words: leave unknown-words out"
        )
    return columns


def parse_columns(names: str, unknown_words: bool = False) -> tuple[Column, ...]:
    """The columns named in a text like "sum,per-word".

    Args:
        names: names joined by commas.
        unknown_words: add "unknown-words" at the end, if it is not among them.

    Raises:
        ConfigError: there is no such column.
    """
    known = get_args(Column)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise ConfigError(f"no column {name!r}; there are {', '.join(known)}")
    if unknown_words and "unknown-words" not in wanted:
        wanted.append("unknown-words")
    return tuple(cast(Column, name) for name in wanted)


def _settings(
    table: SourceTable,
    scorers: Sequence[NamedScorer],
    config: ColumnConfig,
    predictions: Predictions,
) -> dict[str, Any]:
    fitted = [asdict(each) for of_scorer in predictions.values() for each in of_scorer.values()]
    return {
        "table": table.identity,
        "scorers": [{"name": named.name, "fingerprint": named.fingerprint} for named in scorers],
        "columns": list(config.columns),
        "column_format": config.column_format,
        "n_replaced": config.n_replaced,
        "max_bad_rows": table.bad_rows.limit,
        "shard": table.shard and [table.shard.number, table.shard.n_shards],
        "block_rows": config.block_rows,
        **({"predictions": fitted} if fitted else {}),
    }
