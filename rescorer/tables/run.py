"""One run of `rescorer score`: what its columns depend on and what it counted, as TABLE.json tells it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json, write_json
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.column import FORMER_COLUMNS, Column, ColumnConfig
from rescorer.tables.rows import Shard
from rescorer.tables.source_table import SourceTable

# Above the denormal numbers of float32 (1e-38), and as good as 0: its logarithm is -69.
LOWEST_PROB = 1e-30


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
    content = read_json(path)
    try:
        _refuse_former_columns(path, [column["column"] for column in content["columns"]])
        return _run_of_record(out, content)
    except (KeyError, TypeError, ValueError) as error:
        found = f"{json.dumps(content)[:80]} ({type(error).__name__}: {error})"
        raise InputError(
            path, None, found, "what `rescorer score` wrote beside its table"
        ) from error


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


def _run_of_record(out: str, content: Mapping[str, Any]) -> Run:
    settings, columns = dict(content["settings"]), content["columns"]
    config = ColumnConfig(
        columns=tuple(settings["columns"]),
        column_format=settings.get("column_format", "prob"),
        n_replaced=int(settings["n_replaced"]),
        block_rows=int(settings["block_rows"]),
        max_bad_rows=int(settings["max_bad_rows"]),
        shard=Shard(*settings["shard"]) if settings["shard"] else None,
    )
    run = Run(
        settings["table"]["path"],
        settings["table"],
        out,
        tuple((scorer["name"], scorer["fingerprint"]) for scorer in settings["scorers"]),
        config,
        int(content["n_old_scores"]),
        bool(content["has_alignment"]),
        Counts(
            int(content["n_rows"]),
            tuple(int(column["n_floored"]) for column in columns),
            int(content["n_bad_rows"]),
        ),
        Content(int(content["n_bytes"]), str(content["sha256"])) if "sha256" in content else None,
    )
    if [(column["column"], column["scorer"]) for column in columns] != [*run.columns]:
        raise ValueError("the columns are not those of the settings")
    return run
