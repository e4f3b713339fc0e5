from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.scorer import NamedScorer
from rescorer.models.controls import LengthScorer
from rescorer.tables.column import ColumnConfig, add_columns
from rescorer.tables.report import (
    ColumnReport,
    bad_rows_path,
    read_sidecar,
    sidecar_path,
    write_sidecar,
)
from rescorer.tables.source_table import SourceTable

REPORT = ColumnReport(7, 4, (("sum", "a"), ("per-word", "a"), ("sum", "b")), (0, 2, 1), True, 3)


@pytest.mark.parametrize("command", ["", "rescorer score 'a table'"])
def test_sidecar_says_what_was_added(tmp_path: Path, command: str) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_bytes(b"".join(b"a ||| %d ||| 1 1 1 1\n" % number for number in range(5)))
    add_columns(
        SourceTable.open(str(table)),
        str(out),
        [NamedScorer("rnn", LengthScorer(), "1")],
        ColumnConfig(),
        command=command,
    )
    sidecar = json.loads((tmp_path / "out.json").read_bytes())
    assert sidecar["columns"] == [{"column": "sum", "scorer": "rnn", "n_floored": 0}]
    assert (sidecar["n_rows"], sidecar["n_old_scores"], sidecar["n_scores"]) == (5, 4, 5)
    assert sidecar["command"] == command
    assert sidecar["settings"]["table"]["path"] == str(table)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    settings = {"table": {"path": "t"}, "columns": ["sum", "per-word"], "shard": None}
    for report in (REPORT, replace(REPORT, has_alignment=False, n_bad_rows=0)):
        write_sidecar(tmp_path / "t.gz", settings, report, "")
        assert read_sidecar(tmp_path / "t.gz") == (settings, report)


def test_scores_of_a_row_and_names_of_files() -> None:
    assert REPORT.n_scores == 7
    assert sidecar_path(Path("a/t.gz")) == Path("a/t.gz.json")
    assert bad_rows_path(Path("a/t.gz")) == Path("a/t.gz.bad")


@pytest.mark.parametrize(
    "change",
    [
        {"columns": None},
        {"columns": [1]},
        {"columns": [{"column": "sum", "scorer": "a"}]},
        {"n_rows": "many"},
        {"n_rows": None},
        {"settings": 3},
    ],
)
def test_damaged_reports_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = sidecar_path(tmp_path / "t")
    write_sidecar(tmp_path / "t", {}, REPORT, "")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=r"t\.json: .*what `rescorer score` wrote"):
        read_sidecar(tmp_path / "t")


@pytest.mark.parametrize("name", ["columns", "n_rows", "settings", "n_bad_rows", "has_alignment"])
def test_reports_with_gaps_are_refused(tmp_path: Path, name: str) -> None:
    path = sidecar_path(tmp_path / "t")
    write_sidecar(tmp_path / "t", {}, REPORT, "")
    content = json.loads(path.read_text())
    del content[name]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"KeyError: '{name}'"):
        read_sidecar(tmp_path / "t")
