"""A phrase table with added columns.

Moses takes the natural logarithm of each dense score of a text table and floors it at -100, and
makes a NaN of a negative one in silence (moses/TranslationModel/RuleTable/LoaderStandard.cpp,
lines 199-205). So what is added is exp of the value that shall count in the log-linear model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from moses_bridge.errors import ConfigError, InputError
from moses_bridge.formats.phrase_table import BAR, Block, append_score_columns, read_blocks
from moses_bridge.progress import Progress
from moses_bridge.textio import STANDARD_STREAM, write_lines
from rescorer.parallel import map_in_order
from rescorer.partial_file import PartialFile, StandardOutput, compress
from rescorer.scorer import Scorer

Column = Literal["sum", "per-word", "unknown-words"]
LOWEST_PROB = 1e-30


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
        block_rows: rows that are scored together; the result does not depend on it (to 1e-5).
        jobs: blocks that are scored at a time, each on one processor.
    """

    columns: tuple[Column, ...] = ("sum",)
    block_rows: int = 8192
    jobs: int = 1


@dataclass(frozen=True)
class ColumnReport:
    """What was added.

    Attributes:
        n_rows: rows of the table.
        n_old_scores: dense scores of a row before.
        columns: what each added score is, and of which scorer.
        n_floored: rows of each column whose probability was raised to the floor.
        has_alignment: whether the first row has an alignment column.
    """

    n_rows: int
    n_old_scores: int
    columns: tuple[tuple[Column, str], ...]
    n_floored: tuple[int, ...]
    has_alignment: bool

    @property
    def n_scores(self) -> int:
        """Dense scores of a row now."""
        return self.n_old_scores + len(self.columns)


def moses_prob(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is written for a value that shall enter the log-linear model: its exp, at least 1e-30.

    The floor keeps clear of the denormal numbers of float32.
    """
    return np.maximum(np.exp(log_values), LOWEST_PROB)


def add_columns(
    table: str,
    out: str,
    scorers: Sequence[NamedScorer],
    options: ColumnOptions,
    resume: bool = False,
) -> ColumnReport:
    """Write the table with added dense scores, the last of each row; every other byte stays.

    Beside it OUT.json says which models made which column. With "-" the table comes from standard
    input or goes to standard output; such a run cannot be resumed.

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
    if resume and STANDARD_STREAM in (table, out):
        raise ConfigError("a run on standard input or output cannot be resumed")
    settings = _settings(table, scorers, options)
    all_blocks = read_blocks(table, options.block_rows)
    first = next(all_blocks, None)
    if first is None:
        raise InputError(table, None, "an empty file", "a phrase table")
    n_old_scores, has_alignment = row_shape(first.lines[0])
    with _sink(out, settings, resume) as sink, Progress("score", unit="rows") as progress:
        n_done = sink.progress.get("rows", 0)
        progress.update(n_done)
        blocks = (block for block in chain([first], all_blocks) if block.first_line > n_done)
        for scored in map_in_order(
            lambda block: _score_block(block, scorers, options, Path(out)), blocks, options.jobs
        ):
            sink.append(scored.data, scored.counts)
            progress.update(scored.counts["rows"])
        sink.publish()
    n_floored = tuple(sink.progress.get(f"floored {column}", 0) for column in range(len(columns)))
    report = ColumnReport(sink.progress["rows"], n_old_scores, columns, n_floored, has_alignment)
    if out != STANDARD_STREAM:
        _write_sidecar(Path(out), settings, report)
    return report


def _sink(out: str, settings: dict[str, Any], resume: bool) -> PartialFile | StandardOutput:
    return StandardOutput() if out == STANDARD_STREAM else PartialFile(Path(out), settings, resume)


@dataclass(frozen=True)
class _ScoredBlock:
    data: bytes
    counts: dict[str, int]


def _score_block(
    block: Block, scorers: Sequence[NamedScorer], options: ColumnOptions, out: Path
) -> _ScoredBlock:
    log_values = _log_values(block, scorers, options)
    probs = moses_prob(log_values)
    lines = append_score_columns(block.lines, probs)
    counts = {"rows": len(block)}
    for column, floored in enumerate((np.exp(log_values) < LOWEST_PROB).sum(axis=0)):
        counts[f"floored {column}"] = int(floored)
    return _ScoredBlock(compress(b"\n".join(lines) + b"\n", out), counts)


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
                n_steps = [len(target.split()) + 1 for target in block.targets]
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


def _write_sidecar(out: Path, settings: dict[str, Any], report: ColumnReport) -> None:
    content = {**settings, **asdict(report), "n_scores": report.n_scores, "floor": LOWEST_PROB}
    content["columns"] = [
        {"column": column, "scorer": name, "n_floored": n_floored}
        for (column, name), n_floored in zip(report.columns, report.n_floored, strict=True)
    ]
    del content["n_floored"]
    write_lines(f"{out}.json", [json.dumps(content, indent=2).encode()])
