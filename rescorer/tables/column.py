"""A phrase table with added columns.

Moses takes the natural logarithm of each dense score of a text table and floors it at -100, and
makes a NaN of a negative one in silence (moses/TranslationModel/RuleTable/LoaderStandard.cpp,
lines 199-205). So what is added is exp of the value that shall count in the log-linear model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import ConfigError, InputError
from moses_bridge.formats.phrase_table import (
    BAR,
    Block,
    append_score_columns,
    blocks_of_rows,
    split_row,
    without_last_scores,
    words,
)
from moses_bridge.progress import Progress
from moses_bridge.textio import STANDARD_STREAM, is_stream, read_lines, write_lines
from rescorer.contract import Scorer
from rescorer.parallel import map_in_order
from rescorer.tables.partial_file import PartialFile, StreamOutput, compress
from rescorer.tables.report import (
    LOWEST_PROB,
    Column,
    ColumnFormat,
    ColumnReport,
    bad_rows_path,
    write_sidecar,
)
from rescorer.tables.rows import BadRows, NumberedRow, Shard, shard_rows


@dataclass(frozen=True)
class NamedScorer:
    """A scorer and what it is.

    Attributes:
        name: for reports: the model's directory, or the control.
        scorer: gives the log-probabilities.
        fingerprint: changes whenever the scores may change; guards `resume`.
    """

    name: str
    scorer: Scorer
    fingerprint: str


@dataclass(frozen=True)
class ColumnOptions:
    """What to add, and how.

    Attributes:
        columns: of each scorer: "sum" is log p(target | source), "per-word" the same divided by the
            number of target words plus one (</s>), "unknown-words" the number of target words
            outside the shortlist (of the first scorer alone, since models of one table share it).
        column_format: "prob" for Moses and its converters, which take the logarithm; "log" for a table
            whose scores are logarithms already (ProbingPT without --log-prob).
        n_replaced: so many of the last scores of each row are taken off before.
        max_bad_rows: so many malformed rows at most go to OUT.bad instead of ending the run.
        shard: the part of the table to score; None for all of it.
        block_rows: rows that are scored together; the result does not depend on it (to 1e-5).
        jobs: blocks that are scored at a time, each on one processor.
    """

    columns: tuple[Column, ...] = ("sum",)
    column_format: ColumnFormat = "prob"
    n_replaced: int = 0
    max_bad_rows: int = 0
    shard: Shard | None = None
    block_rows: int = 8192
    jobs: int = 1


def moses_prob(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is written for a value that shall enter the log-linear model: its exp, at least 1e-30.

    The floor keeps clear of the denormal numbers of float32.
    """
    return np.maximum(np.exp(log_values), LOWEST_PROB)


def floored_log(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for a table of logarithms: the value itself, at least log 1e-30."""
    return np.maximum(log_values, np.log(LOWEST_PROB))


def add_columns(
    table: str,
    out: str,
    scorers: Sequence[NamedScorer],
    options: ColumnOptions,
    resume: bool = False,
) -> ColumnReport:
    """Write the table with added dense scores, the last of each row; every other byte stays.

    Beside it OUT.json says which models made which column, and OUT.bad holds the malformed rows that
    were left out. With "-" the table comes from standard
    input or goes to standard output; such a run cannot be resumed, and no file stands beside a table
    that goes there, to a pipe or to a device.

    Args:
        table: phrase table, equal sources together.
        out: table to write, compressed by suffix.
        scorers: one group of columns for each.
        options: which columns.
        resume: continue where an earlier run of the same settings was stopped.

    Raises:
        InputError: a row of the table is not one that Moses reads as it is meant.
        ConfigError: the options do not fit together.
    """
    columns = planned_columns(scorers, options)
    _check_streams(table, out, options, resume)
    settings = _settings(table, scorers, options)
    bad_rows = BadRows(options.max_bad_rows)
    all_rows = _chosen_rows(table, options, bad_rows)
    first = next(all_rows, None)
    if first is None:
        raise InputError(table, None, "no row to score", "a phrase table, or fewer shards of it")
    n_old_scores, has_alignment = _old_shape(first, table, options)
    rows = chain([first], all_rows)
    blocks = blocks_of_rows(rows, table, options.block_rows)
    with _sink(out, settings, resume) as sink, Progress("score", unit="rows") as progress:
        n_done = sink.progress.get("rows", 0)
        progress.update(n_done)
        for scored in map_in_order(
            lambda block: _score_block(block, scorers, options, Path(out)),
            _behind(blocks, n_done),
            options.jobs,
        ):
            sink.append(scored.data, scored.counts)
            progress.update(scored.counts["rows"])
        sink.publish()
    report = ColumnReport(
        n_rows=sink.progress.get("rows", 0),
        n_old_scores=n_old_scores,
        columns=columns,
        n_floored=tuple(sink.progress.get(f"floored {i}", 0) for i in range(len(columns))),
        has_alignment=has_alignment,
        n_bad_rows=len(bad_rows.rows),
    )
    if not is_stream(out):
        write_sidecar(Path(out), settings, report)
    if bad_rows.rows:
        write_lines(bad_rows_path(Path(out)), bad_rows.rows)
    return report


def _check_streams(table: str, out: str, options: ColumnOptions, resume: bool) -> None:
    if resume and (is_stream(table) or is_stream(out)):
        raise ConfigError("a run on standard input or output, a pipe or a device cannot be resumed")
    if options.shard and is_stream(table):
        raise ConfigError("standard input or a pipe cannot be scored in shards: name a file")
    if options.max_bad_rows and is_stream(out):
        raise ConfigError("bad rows go to a file beside the table: name one, not standard output")


def _chosen_rows(table: str, options: ColumnOptions, bad_rows: BadRows) -> Iterator[NumberedRow]:
    rows: Iterator[NumberedRow] = enumerate(read_lines(table), start=1)
    if options.shard:
        rows = shard_rows(table, options.shard)
    return bad_rows.left_out(rows, table) if options.max_bad_rows else rows


def _old_shape(row: NumberedRow, table: str, options: ColumnOptions) -> tuple[int, bool]:
    """Scores of a row without those to replace, and whether it has an alignment."""
    line_number, line = row
    split_row(line, table, line_number)
    n_scores, has_alignment = row_shape(line)
    if 0 < n_scores <= options.n_replaced:
        expected = f"more than the {options.n_replaced} to replace"
        raise InputError(table, line_number, f"{n_scores} scores", expected)
    return n_scores - options.n_replaced, has_alignment


def _behind(blocks: Iterator[Block], n_rows: int) -> Iterator[Block]:
    """The blocks without those that hold the first n_rows rows."""
    n_earlier = 0
    for block in blocks:
        if n_earlier >= n_rows:
            yield block
        n_earlier += len(block)


def _sink(out: str, settings: dict[str, Any], resume: bool) -> PartialFile | StreamOutput:
    return StreamOutput(out) if is_stream(out) else PartialFile(Path(out), settings, resume)


@dataclass(frozen=True)
class _ScoredBlock:
    data: bytes
    counts: dict[str, int]


def _score_block(
    block: Block, scorers: Sequence[NamedScorer], options: ColumnOptions, out: Path
) -> _ScoredBlock:
    log_values = _log_values(block, scorers, options)
    written = moses_prob if options.column_format == "prob" else floored_log
    rows = append_score_columns(_old_lines(block, options.n_replaced), written(log_values))
    counts = {"rows": len(block)}
    for column, floored in enumerate((np.exp(log_values) < LOWEST_PROB).sum(axis=0)):
        counts[f"floored {column}"] = int(floored)
    return _ScoredBlock(compress(rows, out), counts)


def _old_lines(block: Block, n_replaced: int) -> list[bytes]:
    if not n_replaced:
        return block.lines
    return [without_last_scores(line, n_replaced) for line in block.lines]


def _log_values(
    block: Block, scorers: Sequence[NamedScorer], options: ColumnOptions
) -> NDArray[np.float64]:
    """The value of each column in the log-linear model, *Shape:* (n_rows, n_columns)."""
    values = []
    for n_earlier, named in enumerate(scorers):
        log_probs = named.scorer.log_probs(block.sources, block.targets)
        for column in options.columns:
            if column == "sum":
                values.append(log_probs)
            elif column == "per-word":
                n_steps = [len(words(target)) + 1 for target in block.targets]
                values.append(log_probs / np.array(n_steps))
            elif n_earlier == 0:
                values.append(named.scorer.n_unknown(block.targets).astype(np.float64))
    return np.stack(values, axis=1)


def planned_columns(
    scorers: Sequence[NamedScorer], options: ColumnOptions
) -> tuple[tuple[Column, str], ...]:
    """The added columns in their order, each with the name of its scorer.

    Raises:
        ConfigError: there is none, or one comes twice.
    """
    if len(set(options.columns)) < len(options.columns):
        raise ConfigError(f"a column is named twice: {', '.join(options.columns)}")
    columns = tuple(
        (column, named.name)
        for n_earlier, named in enumerate(scorers)
        for column in options.columns
        if column != "unknown-words" or n_earlier == 0
    )
    if not columns:
        raise ConfigError("no column to add: name a model or a control, and at least one column")
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


def row_shape(line: bytes) -> tuple[int, bool]:
    """Dense scores of a row, and whether it has an alignment."""
    columns = line.split(BAR)
    return len(columns[2].split()), len(columns) > 3 and bool(columns[3].strip())


def _settings(table: str, scorers: Sequence[NamedScorer], options: ColumnOptions) -> dict[str, Any]:
    return {
        "table": _identity(table),
        "scorers": [{"name": named.name, "fingerprint": named.fingerprint} for named in scorers],
        "columns": list(options.columns),
        "column_format": options.column_format,
        "n_replaced": options.n_replaced,
        "max_bad_rows": options.max_bad_rows,
        "shard": options.shard and [options.shard.number, options.shard.n_shards],
        "block_rows": options.block_rows,
    }


def _identity(table: str) -> dict[str, Any]:
    if table == STANDARD_STREAM or not Path(table).exists():
        return {"path": table}
    state = Path(table).stat()
    return {
        "path": str(Path(table).resolve()),
        "bytes": state.st_size,
        "modified_ns": state.st_mtime_ns,
    }
