"""Reading a table.json written by `tuning compare`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json
from tuning.compare.comparison import Comparison, Contrast, ResultRow, RunSummary


def read_comparison(path: Path) -> Comparison:
    """The comparison in a table.json.

    Raises:
        InputError: the file is missing or is no such table.
    """
    value = read_json(path)
    try:
        return Comparison(**{**value, "rows": [_row(row) for row in value["rows"]]})
    except (KeyError, TypeError, ValueError) as error:
        found = f"{type(error).__name__}: {error}"
        raise InputError(path, None, found, "a table.json of tuning compare") from error


def _row(value: Mapping[str, Any]) -> ResultRow:
    nested = {
        "against_baseline": _contrast(value["against_baseline"]),
        "against_control": _contrast(value["against_control"]),
        "runs": [RunSummary(**run) for run in value["runs"]],
    }
    return ResultRow(**{**value, **nested})


def _contrast(value: Mapping[str, Any] | None) -> Contrast | None:
    if value is None:
        return None
    low, high = value["interval"]
    return Contrast(**{**value, "interval": (low, high)})
