"""One run of `rescorer score`: what its columns depend on and what it counted, as TABLE.json tells it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_args

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import check_plain_file, open_record_of, read_json, write_json
from rescorer.contract.choices import ColumnFormat
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.column import FORMER_COLUMNS, Column, ColumnConfig
from rescorer.tables.rows import Shard
from rescorer.tables.source_table import SourceTable

# Above the denormal numbers of float32 (1e-38), and as good as 0: its logarithm is -69.
LOWEST_PROB = 1e-30
WRITTEN = "what `rescorer score` wrote beside its table"
WholeNumber = Annotated[int, AtLeast(0)]


@dataclass(frozen=True)
class Counts:
    """What was counted of the rows.

    Attributes:
        n_rows: rows that are written.
        n_floored: rows of each column whose probability was raised to the floor.
        n_bad_rows: malformed rows that were left out.
    """

    n_rows: int = 0
    n_floored: tuple[int, ...] = ()
    n_bad_rows: int = 0


@dataclass(frozen=True)
class Content:
    """The bytes of a file, as it is on the disk.

    Attributes:
        n_bytes: how many.
        sha256: their digest, in hexadecimal.
    """

    n_bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Content:
        """Those of a file."""
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            return cls(stream.tell(), digest)


@dataclass(frozen=True)
class Run:
    """What the added columns are.

    Attributes:
        path: of the table that is scored, as it was named.
        table: what changes when that table does (`SourceTable.identity`).
        out: the table to write.
        scorers: name and fingerprint of each.
        config: which columns, of which rows.
        n_old_scores: dense scores of a row that stay.
        has_alignment: whether the first row has an alignment column.
        counts: of nothing while the run goes on.
        content: what a finished shard consists of; None of other tables, and of shards without such a record.
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
        """The run that adds columns to a table; the rows are those that the table was opened for."""
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
        """What each added score is, and of which scorer."""
        return self.config.of_scorers([name for name, _ in self.scorers])

    @property
    def n_scores(self) -> int:
        """Dense scores of a row of the new table."""
        return self.n_old_scores + len(self.columns)

    @property
    def sidecar(self) -> Path:
        """Where the record of the run stands."""
        return sidecar_of(self.out)

    @property
    def bad_rows(self) -> Path:
        """Where the malformed rows stand that were left out."""
        return bad_rows_of(self.out)

    @property
    def settings(self) -> dict[str, Any]:
        """What the bytes of the columns depend on; runs with equal ones can continue each other."""
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
        """Write what was done and counted.

        Args:
            command: the command line that did it; "" where it was none.
        """
        columns = [
            {"column": column, "scorer": name, "n_floored": n_floored}
            for (column, name), n_floored in zip(self.columns, self.counts.n_floored, strict=True)
        ]
        record = {
            "rescorer": version("rescorer"),
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
    """What a record says of a shard; those of parts that were cut at any source have no third number."""
    return [shard.number, shard.n_shards, *([shard.block_rows] if shard.block_rows else [])]


@dataclass(frozen=True)
class _Record:
    """What is used of TABLE.json."""

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
    """Where the record stands of the run that wrote a table."""
    return Path(f"{out}.json")


def bad_rows_of(out: str) -> Path:
    """Where the malformed rows stand that the run that wrote a table left out."""
    return Path(f"{out}.bad")


def read_run(out: str) -> Run:
    """The run that wrote a table.

    Raises:
        InputError: there is no record beside the table, it is something else, or it names columns that are
            no longer made.
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
            path, None, f"the shard {[*settings.shard]}", "a shard and their number", WRITTEN
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
        raise InputError(path, None, "columns that are not those of the settings", WRITTEN)
    return run


def _refuse_former_columns(path: Path, columns: Sequence[str]) -> None:
    for column in columns:
        if column in FORMER_COLUMNS:
            raise InputError(
                path,
                None,
                f"a column {column!r}, which this version does not make",
                f"columns among {', '.join(get_args(Column))}",
                "Score the table anew",
            )
