"""Tables of the page: their cells by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moses_bridge.errors import InputError
from moses_bridge.steps import Step
from tuning.compare.comparison import Comparison, Contrast, ResultRow
from tuning.loop.run_directory import Iteration, TuningRun
from tuning.report.page.table import Cell, Table, bleu_table, measure_table, run_table, step_table


def result_row(system: str, contrast: Contrast | None, deviation: float | None) -> ResultRow:
    return ResultRow(
        system=system,
        dev_bleu=31.006,
        dev_sd=deviation,
        test_bleu=30.5,
        test_sd=deviation,
        against_baseline=contrast,
        against_control=None,
        n_runs=3,
        n_networks=1,
        network_sd=None,
        length_ratio=0.9876,
        precisions=[60.06, 40.0, 30.0, 20.0],
        bootstrap_sd=0.4,
        detokenised_bleu=29.0,
        chrf=55.0,
        ter=50.0,
        weights={},
        runs=[],
    )


def test_cells_of_the_bleu_table() -> None:
    sure = Contrast(1.25, (0.5, 2.0), 0.00004, 0.0301, 0.7, True)
    over_texts = Contrast(-0.1, (-1.0, 0.8), 0.5, 0.5, 0.7, False)
    rows = [
        result_row("Baseline", None, 0.1),
        result_row("+A", sure, 0.1),
        result_row("+B", over_texts, None),
    ]
    table = bleu_table(Comparison(rows, "BLEU|x", ["chrF|y"], 1234))
    assert table.caption == "BLEU on 1,234 test sentences"
    first, second, third = ([cell.text for cell in row] for row in table.rows)
    assert first == ["Baseline", "31.01 ± 0.10", "30.50 ± 0.10", "0.40", "", "", "", "", "3"]
    assert second[4:8] == ["+1.25", "+0.50 to +2.00", "< 0.0001", "0.0301"]
    assert third[1:3] == ["31.01", "30.50"]
    assert third[6] == "0.5000*"
    assert [cell.strong for cell in table.rows[1][4:8]] == [True, False, True, True]
    assert not any(cell.strong for cell in table.rows[2])
    assert table.is_number == [False, *[True] * 8]
    assert table.notes[-2:] == ["BLEU|x", "chrF|y"]


def test_a_control_has_columns() -> None:
    rows = [result_row("Baseline", None, 0.1), result_row("noise", None, 0.1)]
    table = bleu_table(Comparison(rows, control="noise"))
    assert table.columns[-3:] == ["vs control", "its Holm", "runs"]
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_other_measures() -> None:
    (row,) = measure_table(Comparison([result_row("A", None, None)])).rows
    assert [cell.text for cell in row] == [
        "A",
        "0.988",
        "60.1",
        "40.0",
        "30.0",
        "20.0",
        "29.00",
        "55.00",
        "50.00",
    ]


def test_columns_without_any_text_are_left_out() -> None:
    table = Table("x", ["a", "b", "c"], [[Cell("1"), Cell(""), Cell("", 2.0)]] * 2)
    assert table.without_empty_columns().columns == ["a"]


def test_a_run_has_the_time_and_memory_of_its_steps(tmp_path: Path) -> None:
    step = Step("r", "tuning tune", "1", "2026-01-01T00:00:00", 40.0, 30.0, 2_000_000, 0, "m")
    lines = [step, Step(**{**vars(step), "seconds": 25.0, "peak_memory": 9_000_000})]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(vars(each)) + "\n" for each in lines))
    iteration = Iteration({"LM0": [1.0]}, 30.0, 1.0, 40.0)
    run = TuningRun("moses.ini", {"LM0": [1.0]}, 30.0, 7, 100, {}, [], [iteration], {}, "settled")
    table = run_table({"r": run}, {"r": "System"}, {}, {"r": tmp_path})
    assert dict(zip(table.columns, (cell.text for cell in table.rows[0]), strict=True)) == {
        "run": "r",
        "system": "System",
        "seed": "7",
        "decodings": "1",
        "kept": "1",
        "ended": "settled",
        "dev BLEU": "30.00",
        "time": "1 min 05 s",
        "memory": "9 MB",
    }
    (tmp_path / "steps.jsonl").write_text("nothing\n")
    with pytest.raises(InputError, match=r"steps\.jsonl:1"):
        run_table({"r": run}, {"r": "System"}, {}, {"r": tmp_path})


def test_steps_with_versions_and_machines() -> None:
    step = Step("a", "make a", "1.5", "2026-01-01T10:11:12+00:00", 2.0, 1.0, 3_000_000, 0, "box")
    failed = Step(**{**vars(step), "status": 1, "name": "b"})
    table = step_table([step, failed])
    ((name, started, *_),) = table.rows
    assert (name.text, started.text) == ("a", "2026-01-01 10:11:12")
    assert {"Version 1.5.", "box"} <= set(table.notes)
