"""Reading a table.json written by `tuning compare`."""

from __future__ import annotations

from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json, record_of
from tuning.compare.comparison import Comparison

WHAT = "a table.json of tuning compare"


def read_comparison(path: Path) -> Comparison:
    """The comparison in a table.json.

    Raises:
        InputError: the file is missing or is no such table.
    """
    value = read_json(path)
    if isinstance(value, dict) and "rows" not in value:
        raise InputError(path, None, "no key 'rows'", WHAT)
    return record_of(Comparison, value, path, WHAT)
