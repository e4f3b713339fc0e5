"""What was added to a phrase table, and the file TABLE.json that says so beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json, write_json
from rescorer.tables.prediction import Prediction

Column = Literal["sum", "per-word", "over-targets", "length-neutral", "residual", "unknown-words"]
ColumnFormat = Literal["prob", "log"]
# Above the denormal numbers of float32 (1e-38), and as good as 0: its logarithm is -69.
LOWEST_PROB = 1e-30


@dataclass(frozen=True)
class ColumnReport:
    """What was added.

    Attributes:
        n_rows: rows of the table.
        n_old_scores: dense scores of a row before.
        columns: what each added score is, and of which scorer.
        n_floored: rows of each column whose probability was raised to the floor.
        has_alignment: whether the first row has an alignment column.
        n_bad_rows: malformed rows that were left out.
        predictions: what was taken from the scorer's values, by the place of the column among those added.
    """

    n_rows: int
    n_old_scores: int
    columns: tuple[tuple[Column, str], ...]
    n_floored: tuple[int, ...]
    has_alignment: bool
    n_bad_rows: int = 0
    predictions: Mapping[int, Prediction] = field(default_factory=dict)

    @property
    def n_scores(self) -> int:
        """Dense scores of a row now."""
        return self.n_old_scores + len(self.columns)


def sidecar_path(table: Path) -> Path:
    """Where the report on a table stands."""
    return Path(f"{table}.json")


def bad_rows_path(table: Path) -> Path:
    """Where the malformed rows stand that were left out."""
    return Path(f"{table}.bad")


def write_sidecar(
    table: Path, settings: Mapping[str, Any], report: ColumnReport, command: str
) -> None:
    """Write the report on a table and what it was made with.

    Args:
        table: the table that was written.
        settings: what the scores depend on.
        report: what was added.
        command: the command line that did it; "" where it was none.
    """
    content = {**asdict(report), "n_scores": report.n_scores, "floor": LOWEST_PROB}
    predictions = content.pop("predictions")
    content["columns"] = [
        {"column": column, "scorer": name, "n_floored": n_floored}
        for (column, name), n_floored in zip(report.columns, report.n_floored, strict=True)
    ]
    for place, prediction in predictions.items():
        content["columns"][place]["prediction"] = prediction
    del content["n_floored"]
    made_by = {"rescorer": version("rescorer"), "command": command}
    write_json(sidecar_path(table), {**made_by, "settings": dict(settings), **content})


def read_sidecar(table: Path) -> tuple[dict[str, Any], ColumnReport]:
    """The settings and the report of a table that `rescorer score` wrote.

    Raises:
        InputError: there is none beside the table, or it is something else.
    """
    path = sidecar_path(table)
    content = read_json(path)
    try:
        columns = [(column["column"], column["scorer"]) for column in content["columns"]]
        report = ColumnReport(
            n_rows=int(content["n_rows"]),
            n_old_scores=int(content["n_old_scores"]),
            columns=tuple(columns),
            n_floored=tuple(int(column["n_floored"]) for column in content["columns"]),
            has_alignment=bool(content["has_alignment"]),
            n_bad_rows=int(content["n_bad_rows"]),
            predictions={
                place: Prediction(**column["prediction"])
                for place, column in enumerate(content["columns"])
                if "prediction" in column
            },
        )
        return dict(content["settings"]), report
    except (KeyError, TypeError, ValueError) as error:
        found = f"{json.dumps(content)[:80]} ({type(error).__name__}: {error})"
        raise InputError(
            path, None, found, "what `rescorer score` wrote beside its table"
        ) from error
