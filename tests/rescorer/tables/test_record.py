from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.scorer import NamedScorer
from rescorer.models.scorer_choice import LengthScorer
from rescorer.tables.column import ColumnConfig
from rescorer.tables.record import Counts, RunRecord
from rescorer.tables.scored_table import Run, add_columns
from rescorer.tables.source_table import Shard

CONFIG = ColumnConfig(("sum", "per-word", "unknown-words"), max_bad_rows=5, shard=Shard(1, 2))
SCORERS = (("a", "1"), ("b", "2"))
RUN = RunRecord(
    "t", {"path": "t"}, "a/t.gz", SCORERS, CONFIG, 4, True, Counts(7, (0, 2, 1, 0, 3), 3)
)


@pytest.mark.parametrize("command", ["", "rescorer score 'a table'"])
def test_sidecar_says_what_was_added(tmp_path: Path, command: str) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_bytes(b"".join(b"a ||| %d ||| 1 1 1 1\n" % number for number in range(5)))
    add_columns(
        Run.prepare(
            str(table), str(out), [NamedScorer("rnn", LengthScorer(), "1")], ColumnConfig()
        ),
        command=command,
    )
    sidecar = json.loads((tmp_path / "out.json").read_bytes())
    assert sidecar["columns"] == [{"column": "sum", "scorer": "rnn", "n_floored": 0}]
    assert (sidecar["n_rows"], sidecar["n_old_scores"], sidecar["n_scores"]) == (5, 4, 5)
    assert sidecar["command"] == command
    assert sidecar["settings"]["table"]["path"] == str(table)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    run = replace(RUN, out=str(tmp_path / "t.gz"))
    whole = replace(CONFIG, shard=None, column_format="log", n_replaced=2)
    counts = replace(RUN.counts, n_bad_rows=0)
    for written in (run, replace(run, has_alignment=False, config=whole, counts=counts)):
        written.write("")
        assert RunRecord.read(written.out) == written


def test_columns_and_scores_of_a_row_and_names_of_files() -> None:
    assert RUN.columns == (
        *(("sum", "a"), ("per-word", "a"), ("unknown-words", "a")),
        *(("sum", "b"), ("per-word", "b")),
    )
    assert RUN.n_scores == 9
    assert RUN.sidecar == Path("a/t.gz.json")
    assert RUN.bad_rows == Path("a/t.gz.bad")


def test_a_summary_counts_rows_scores_and_what_was_cut_or_left_out() -> None:
    cut = "rows cut to the least or greatest score"
    assert RUN.summary() == [
        "a/t.gz: 7 rows, 9 scores each",
        "  score 5: sum of a",
        f"  score 6: per-word of a, 2 {cut}",
        f"  score 7: unknown-words of a, 1 {cut}",
        "  score 8: sum of b",
        f"  score 9: per-word of b, 3 {cut}",
        "a/t.gz.bad: 3 malformed rows left out",
    ]


def written(folder: Path) -> tuple[Path, dict[str, Any]]:
    """A record and its content."""
    run = replace(RUN, out=str(folder / "t"))
    run.write("")
    return run.sidecar, json.loads(run.sidecar.read_text())


@pytest.mark.parametrize(
    "change",
    [
        {"columns": None},
        {"columns": [1]},
        {"columns": [{"column": "sum", "scorer": "a"}]},
        {"columns": [{"column": "sum", "scorer": "b", "n_floored": 0}]},
        {"n_rows": "many"},
        {"n_rows": None},
        {"settings": 3},
        {"settings": {}},
    ],
)
def test_damaged_records_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path, content = written(tmp_path)
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(InputError, match=r"t\.json: .*the record of a run of `rescorer score`"):
        RunRecord.read(str(tmp_path / "t"))


@pytest.mark.parametrize("name", ["columns", "n_rows", "settings", "n_bad_rows", "has_alignment"])
def test_records_with_gaps_are_refused(tmp_path: Path, name: str) -> None:
    path, content = written(tmp_path)
    del content[name]
    path.write_text(json.dumps(content))
    with pytest.raises(
        InputError, match=f"found the key '{name}' is missing, expected the record of a run"
    ):
        RunRecord.read(str(tmp_path / "t"))


@pytest.mark.parametrize("former", ["length-neutral", "residual"])
def test_columns_that_are_no_longer_made_are_named(tmp_path: Path, former: str) -> None:
    """Records of earlier versions, with the predictors of the scorer's values."""
    path, content = written(tmp_path)
    content["columns"][1] |= {"column": former, "prediction": {"predictors": "lengths"}}
    content["settings"] |= {"columns": ["sum", former], "predictions": []}
    path.write_text(json.dumps(content))
    with pytest.raises(
        InputError, match=rf"t\.json: found the column '{former}' of an earlier .*anew"
    ):
        RunRecord.read(str(tmp_path / "t"))
