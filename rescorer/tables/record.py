"""The record of a run of `rescorer score`, TABLE.json: its settings and counts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.json_files import open_record_of, read_json, write_json
from moses_bridge.base.provenance import file_digest, own_version
from moses_bridge.base.textio import COMPRESSIONS
from rescorer.contract.choices import ColumnFormat
from rescorer.tables.column import FORMER_COLUMNS, Column, ColumnConfig
from rescorer.tables.source_table import Shard

# Above the denormal numbers of float32 (1e-38), and as good as 0: its logarithm is -69.
LOWEST_PROB = 1e-30
WRITTEN = "the record of a run of `rescorer score`"
WholeNumber = Annotated[int, AtLeast(0)]


@dataclass(frozen=True)
class Counts:
    """Numbers of rows: written, outside the limits of what is written (by column), left out, not scored."""

    n_rows: int = 0
    n_floored: tuple[int, ...] = ()
    n_bad_rows: int = 0
    n_unscored: int = 0


@dataclass(frozen=True)
class Content:
    """Size of a file on disk, as compressed, and its SHA-256 in hexadecimal."""

    n_bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Content:
        """Measure a file."""
        return cls(path.stat().st_size, file_digest(path))


@dataclass(frozen=True)
class RunRecord:
    """A run of `rescorer score`: everything its new bytes depend on, and its counts.

    Attributes:
        path: path of the scored table, as it was given.
        table: identity of that table (`table_identity`).
        out: the table to write.
        scorers: name and fingerprint of each.
        config: settings of the columns, with the shard and limit of the opened table.
        n_old_scores: number of dense scores kept in each row.
        has_alignment: whether the first row has an alignment column.
        counts: numbers of rows; all 0 until the run is finished.
        content: size and digest of a finished shard; None for other tables, and for shards recorded without.
    """

    path: str
    table: Mapping[str, Any]
    out: str
    scorers: tuple[tuple[str, str], ...]
    config: ColumnConfig
    n_old_scores: int
    has_alignment: bool
    counts: Counts = Counts()
    content: Content | None = None

    @property
    def columns(self) -> tuple[tuple[Column, str], ...]:
        """The added columns in their order, each with the name of its scorer."""
        return self.config.of_scorers([name for name, _ in self.scorers])

    @property
    def n_scores(self) -> int:
        """Dense scores of a row of the new table."""
        return self.n_old_scores + len(self.columns)

    @property
    def sidecar(self) -> Path:
        """Path of the run's record."""
        return sidecar_of(self.out)

    @property
    def bad_rows(self) -> Path:
        """Path of the malformed rows left out."""
        return bad_rows_of(self.out)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything the columns' bytes depend on; a run can continue one with equal settings."""
        config, shard = self.config, self.config.shard
        return {
            "table": self.table,
            "scorers": [{"name": name, "fingerprint": mark} for name, mark in self.scorers],
            "columns": list(config.columns),
            "column_format": config.column_format,
            "n_replaced": config.n_replaced,
            "max_bad_rows": config.max_bad_rows,
            # The third number of a shard is missing if it begins at any source.
            "shard": shard and [n for n in (shard.number, shard.n_shards, shard.block_rows) if n],
            "block_rows": config.block_rows,
        }

    @classmethod
    def read(cls, out: str) -> RunRecord:
        """Read the record of the run that wrote a table.

        Raises:
            InputError: the record is missing or malformed, or names columns of an earlier version.
        """
        path = sidecar_of(out)
        known = partial(open_record_of, path=path, what=WRITTEN)
        found = known(_Written, read_json(path))
        columns = [known(_AddedColumn, each) for each in found.columns]
        _refuse_former_columns(path, [each.column for each in columns])
        settings = known(_Settings, found.settings)
        scorers = [known(_Scorer, each) for each in settings.scorers]
        table = known(_Table, settings.table)
        if settings.shard and len(settings.shard) not in (2, 3):
            expected = f"its number and their count, in {WRITTEN}"
            raise InputError(path, None, f"the shard {[*settings.shard]}", expected)
        config = ColumnConfig(
            columns=settings.columns,
            column_format=settings.column_format,
            n_replaced=settings.n_replaced,
            block_rows=settings.block_rows,
            max_bad_rows=settings.max_bad_rows,
            shard=Shard(*settings.shard) if settings.shard else None,
        )
        run = cls(
            table.path,
            settings.table,
            out,
            tuple((scorer.name, scorer.fingerprint) for scorer in scorers),
            config,
            found.n_old_scores,
            found.has_alignment,
            Counts(
                found.n_rows,
                tuple(each.n_floored for each in columns),
                found.n_bad_rows,
                found.n_unscored,
            ),
            Content(found.n_bytes, found.sha256) if found.sha256 else None,
        )
        if [(each.column, each.scorer) for each in columns] != [*run.columns]:
            raise InputError(path, None, "columns other than those of the settings", WRITTEN)
        return run

    def replaced_by(self, n_scores: int, config: ColumnConfig) -> ColumnConfig:
        """The settings for replacing this run's columns in a table of n_scores dense scores.

        Raises:
            InputError: the rows have another number of scores than the record says.
            ConfigError: the columns of this run have another format.
        """
        if n_scores != self.n_scores:
            expected = f"{self.n_scores}, as {self.sidecar} says"
            raise InputError(self.out, 1, f"{n_scores} scores", expected)
        column_format = self.config.column_format
        if column_format != config.column_format:
            raise ConfigError(
                f"the columns to replace have the format {column_format!r}, as {self.sidecar}"
                f" says: score with --column-format {column_format}"
            )
        return replace(config, n_replaced=len(self.columns))

    def summary(self) -> list[str]:
        """The lines telling the user what was written."""
        lines = [f"{self.out}: {self.counts.n_rows:,} rows, {self.n_scores} scores each"]
        for number, ((column, name), n_floored) in enumerate(
            zip(self.columns, self.counts.n_floored, strict=True), start=self.n_old_scores + 1
        ):
            floored = f", {n_floored:,} rows cut to the least or greatest score"
            lines.append(f"  score {number}: {column} of {name}{floored if n_floored else ''}")
        if n_bad_rows := self.counts.n_bad_rows:
            lines.append(f"{self.bad_rows}: {n_bad_rows:,} malformed rows left out")
        if n_unscored := self.counts.n_unscored:
            told = "values that no scorer gave are the least of their source phrase"
            lines.append(f"note: {self.out}: {n_unscored:,} {told}")
        return lines

    def write(self, command: str) -> None:
        """Write the run's settings and counts to `sidecar`; command is "" for a call from Python."""
        columns = [
            {"column": column, "scorer": name, "n_floored": n_floored}
            for (column, name), n_floored in zip(self.columns, self.counts.n_floored, strict=True)
        ]
        record = {
            "rescorer": own_version(),
            "command": command,
            "settings": self.settings,
            "n_rows": self.counts.n_rows,
            "n_old_scores": self.n_old_scores,
            "columns": columns,
            "has_alignment": self.has_alignment,
            "n_bad_rows": self.counts.n_bad_rows,
            "n_unscored": self.counts.n_unscored,
            "n_scores": self.n_scores,
            "floor": LOWEST_PROB,
        }
        if self.content is not None:
            record |= {"n_bytes": self.content.n_bytes, "sha256": self.content.sha256}
        write_json(self.sidecar, record)

    def binary_table_commands(self) -> list[str]:
        """Moses's commands for converting the new table to binary ones, with its number of scores.

        Without the number, processPhraseTableMin assumes 4 and CreateProbingPT does not check the
        rows. processPhraseTableMin always takes the logarithm, CreateProbingPT only with
        --log-prob. So a table of logarithms can be converted by CreateProbingPT only.
        """
        out, n_scores = Path(self.out), str(self.n_scores)
        stem = out.with_suffix("") if out.suffix in COMPRESSIONS else out
        probing = ["CreateProbingPT", "--input-pt", str(out), "--output-dir", f"{stem}.probing"]
        probing += ["--num-scores", n_scores]
        if self.config.column_format == "log":
            return [shlex.join(probing)]
        compact = ["processPhraseTableMin", "-in", str(out), "-out", str(stem)]
        compact += ["-nscores", n_scores, "-rankscore", "2"]
        if not self.has_alignment:
            compact += ["-encoding", "None"]
        return [shlex.join(compact), shlex.join([*probing, "--log-prob"])]


@dataclass(frozen=True)
class _Written(Limited):
    settings: dict[str, Any]
    n_rows: WholeNumber
    n_old_scores: WholeNumber
    columns: list[Any]
    has_alignment: bool
    n_bad_rows: WholeNumber
    n_unscored: WholeNumber = 0
    n_bytes: WholeNumber = 0
    sha256: str = ""


@dataclass(frozen=True)
class _AddedColumn(Limited):
    column: str
    scorer: str
    n_floored: WholeNumber


@dataclass(frozen=True)
class _Settings(Limited):
    table: dict[str, Any]
    scorers: list[Any]
    columns: tuple[Column, ...]
    n_replaced: WholeNumber
    max_bad_rows: WholeNumber
    block_rows: Annotated[int, AtLeast(1)]
    shard: tuple[int, ...] | None = None
    column_format: ColumnFormat = "prob"


@dataclass(frozen=True)
class _Scorer:
    name: str
    fingerprint: str


@dataclass(frozen=True)
class _Table:
    path: str


def sidecar_of(out: str) -> Path:
    """Path of the record of the run that wrote a table."""
    return Path(f"{out}.json")


def bad_rows_of(out: str) -> Path:
    """Path of the malformed rows left out by the run that wrote a table."""
    return Path(f"{out}.bad")


def _refuse_former_columns(path: Path, columns: Sequence[str]) -> None:
    for column in columns:
        if column in FORMER_COLUMNS:
            found = f"the column {column!r} of an earlier version"
            expected = f"columns among {', '.join(get_args(Column))}"
            raise InputError(path, None, found, expected, "Score the table anew")
