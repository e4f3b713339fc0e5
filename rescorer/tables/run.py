"""One run of `rescorer score`: its settings and counts, as recorded in TABLE.json."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import check_plain_file, open_record_of, read_json, write_json
from moses_bridge.base.provenance import own_version
from rescorer.contract.choices import ColumnFormat
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.column import FORMER_COLUMNS, Column, ColumnConfig
from rescorer.tables.rows import Shard
from rescorer.tables.source_table import SourceTable

# Above the denormal numbers of float32 (1e-38), and as good as 0: its logarithm is -69.
LOWEST_PROB = 1e-30
WRITTEN = "the record of a run of `rescorer score`"
WholeNumber = Annotated[int, AtLeast(0)]


@dataclass(frozen=True)
class Counts:
    """Numbers of rows.

    Attributes:
        n_rows: rows written.
        n_floored: for each column, rows with a value outside the limits of what is written.
        n_bad_rows: malformed rows left out.
    """

    n_rows: int = 0
    n_floored: tuple[int, ...] = ()
    n_bad_rows: int = 0


@dataclass(frozen=True)
class Content:
    """Size and digest of a file on disk.

    Attributes:
        n_bytes: number of bytes, as compressed.
        sha256: SHA-256 of these bytes, in hexadecimal.
    """

    n_bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Content:
        """Measure a file."""
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            return cls(stream.tell(), digest)


@dataclass(frozen=True)
class Run:
    """A run of `rescorer score`: everything its new bytes depend on, and its counts.

    Attributes:
        path: path of the scored table, as it was given.
        table: identity of that table (`SourceTable.identity`).
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

    @classmethod
    def of(
        cls, table: SourceTable, out: str, scorers: Sequence[NamedScorer], config: ColumnConfig
    ) -> Run:
        """The run for adding columns to a table.

        Args:
            table: the table, opened for the rows to score.
            out: the table to write.
            scorers: the scorers.
            config: settings; the table's shard and limit of malformed rows replace those here.
        """
        return cls(
            table.path,
            table.identity,
            out,
            tuple((named.name, named.fingerprint) for named in scorers),
            replace(config, max_bad_rows=table.bad_rows.limit, shard=table.shard),
            table.n_scores - config.n_replaced,
            table.has_alignment,
        )

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
            "shard": shard and _shard_setting(shard),
            "block_rows": config.block_rows,
        }

    def write_record(self, command: str) -> None:
        """Write the run's settings and counts to `sidecar`.

        Args:
            command: the command line; "" for a call from Python.
        """
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
            "n_scores": self.n_scores,
            "floor": LOWEST_PROB,
        }
        if self.content is not None:
            record |= {"n_bytes": self.content.n_bytes, "sha256": self.content.sha256}
        write_json(self.sidecar, record)


def _shard_setting(shard: Shard) -> list[int]:
    """A shard as recorded; the third number is missing if it begins at any source."""
    return [shard.number, shard.n_shards, *([shard.block_rows] if shard.block_rows else [])]


@dataclass(frozen=True)
class _Record:
    """The keys used from TABLE.json."""

    settings: dict[str, Any]
    n_rows: WholeNumber
    n_old_scores: WholeNumber
    columns: list[Any]
    has_alignment: bool
    n_bad_rows: WholeNumber
    n_bytes: WholeNumber = 0
    sha256: str = ""

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(frozen=True)
class _AddedColumn:
    column: str
    scorer: str
    n_floored: WholeNumber

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(frozen=True)
class _Settings:
    table: dict[str, Any]
    scorers: list[Any]
    columns: tuple[Column, ...]
    n_replaced: WholeNumber
    max_bad_rows: WholeNumber
    block_rows: Annotated[int, AtLeast(1)]
    shard: tuple[int, ...] | None = None
    column_format: ColumnFormat = "prob"

    def __post_init__(self) -> None:
        check_limits(self)


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


def read_run(out: str) -> Run:
    """Read the record of the run that wrote a table.

    Raises:
        InputError: the record is missing or malformed, or names columns of an earlier version.
    """
    path = sidecar_of(out)
    check_plain_file(path)
    record = open_record_of(_Record, read_json(path), path, WRITTEN)
    columns = [open_record_of(_AddedColumn, each, path, WRITTEN) for each in record.columns]
    _refuse_former_columns(path, [each.column for each in columns])
    settings = open_record_of(_Settings, record.settings, path, WRITTEN)
    scorers = [open_record_of(_Scorer, each, path, WRITTEN) for each in settings.scorers]
    table = open_record_of(_Table, settings.table, path, WRITTEN)
    if settings.shard and len(settings.shard) not in (2, 3):
        raise InputError(
            path,
            None,
            f"the shard {[*settings.shard]}",
            f"its number and their count, in {WRITTEN}",
        )
    config = ColumnConfig(
        columns=settings.columns,
        column_format=settings.column_format,
        n_replaced=settings.n_replaced,
        block_rows=settings.block_rows,
        max_bad_rows=settings.max_bad_rows,
        shard=Shard(*settings.shard) if settings.shard else None,
    )
    run = Run(
        table.path,
        settings.table,
        out,
        tuple((scorer.name, scorer.fingerprint) for scorer in scorers),
        config,
        record.n_old_scores,
        record.has_alignment,
        Counts(record.n_rows, tuple(each.n_floored for each in columns), record.n_bad_rows),
        Content(record.n_bytes, record.sha256) if record.sha256 else None,
    )
    if [(each.column, each.scorer) for each in columns] != [*run.columns]:
        raise InputError(path, None, "columns other than those of the settings", WRITTEN)
    return run


def _refuse_former_columns(path: Path, columns: Sequence[str]) -> None:
    for column in columns:
        if column in FORMER_COLUMNS:
            raise InputError(
                path,
                None,
                f"the column {column!r} of an earlier version",
                f"columns among {', '.join(get_args(Column))}",
                "Score the table anew",
            )
