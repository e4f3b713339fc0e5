"""Tables of the page: their cells by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.steps import Step
from tuning.compare.comparison import (
    Comparison,
    Contrast,
    FarScores,
    NgramContrast,
    NgramMatches,
    ResultRow,
    WordAccuracy,
)
from tuning.loop.list_features import NBestFeature
from tuning.loop.run_directory import Iteration, TuningRun
from tuning.report.page.learning_curve import LearningCurve, LogPoint
from tuning.report.page.table import (
    Cell,
    Table,
    bleu_table,
    command_table,
    iteration_table,
    measure_table,
    network_table,
    ngram_tables,
    run_table,
    step_table,
    word_table,
)


def result_row(system: str, contrast: Contrast | None, deviation: float | None) -> ResultRow:
    numbers = (31.006, deviation, 30.5, deviation)
    scores = (0.9876, [60.06, 40.0, 30.0, 20.0], 0.4, 29.0, 55.0, 50.0)
    return ResultRow(system, *numbers, contrast, None, 3, 1, None, *scores, {}, [])


def test_the_metric_tuned_for_is_beside_the_others() -> None:
    rows = [result_row("A", None, None), replace(result_row("B", None, None), metrics={"cer": 7.5})]
    table = measure_table(Comparison(rows))
    assert (table.columns[-2:], len(table.notes)) == (["TER", "tuned: cer"], 2)
    assert [row[-1] for row in table.rows] == [Cell(""), Cell("7.50", 7.5)]
    assert measure_table(Comparison(rows[:1])).columns[-1] == "TER"


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


def test_a_difference_is_sure_by_its_corrected_p_value() -> None:
    contrast = Contrast(1.0, (0.1, 1.9), 0.03, 0.06, 0.7, True)
    (row,) = bleu_table(Comparison([result_row("+A", contrast, 0.1)])).rows
    assert [cell.strong for cell in row[4:8]] == [False, False, True, False]


def test_a_control_has_columns() -> None:
    rows = [result_row("Baseline", None, 0.1), result_row("noise", None, 0.1)]
    table = bleu_table(Comparison(rows, control="noise"))
    assert table.columns[-3:] == ["vs control", "its corrected p", "runs"]
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_a_system_has_a_second_line_on_the_sentences_far_from_the_training_text() -> None:
    sure = Contrast(1.75, (1.0, 2.5), 0.0002, 0.03, 0.7, True)
    far = FarScores(24.256, 0.2, 0.51, 1.0, [50.0, 30.0, 20.0, 10.0], sure, None)
    rows = [replace(result_row("+A", None, 0.1), far=far)]
    comparison = Comparison(rows, n_sentences=200, near_copies={"0.5": 0.25, "0.7": 0.1}, n_far=150)
    table = bleu_table(comparison)
    texts = ["+A (far)", "", "24.26 ± 0.20", "0.51", "+1.75", "+1.00 to +2.50", "0.0002", "0.0300"]
    assert [cell.text for cell in table.rows[1]] == [*texts, ""]
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert any(
        "of the 200 test sentences 25.0% (>= 0.5), 10.0% (>= 0.7) are" in note
        and note.endswith("(far): the 150 others, below 0.5.")
        for note in table.notes
    )


def test_accuracy_of_words_by_frequency() -> None:
    rare, common = WordAccuracy(0, 0, 0, 0.0, 0.0, 0.0), WordAccuracy(1, 4, 1200, 50.0, 40.0, 44.44)
    frequent = WordAccuracy(1000, None, 7, 100.0, 100.0, 100.0)
    rows = [replace(result_row("A", None, 0.1), words=[rare, common, frequent])]
    table = word_table(Comparison(rows))
    assert table is not None
    assert table.columns == ["system", "0", "1-4", "1000+"]
    assert [cell.text for cell in table.rows[0]] == ["A", "", "44.4", "100.0"]
    assert table.notes[1] == "Words of the reference: 0 (0), 1,200 (1-4), 7 (1000+)."
    assert word_table(Comparison([result_row("A", None, 0.1)])) is None


def test_ngrams_won_and_lost() -> None:
    won = [NgramMatches("le <b>", 1.5, 12.0, 20), NgramMatches("le", 0.0, 1.0, 1)]
    rows = [result_row("A", None, 0.1), result_row("B", None, 0.1)]
    comparison = Comparison(rows, ngrams=NgramContrast("B", won, []))
    (table,) = ngram_tables(comparison)
    assert table.caption == "N-grams won: right more often in B than in A"
    assert [cell.text for cell in table.rows[0]] == ["le <b>", "+10.5", "12.0", "1.5", "20"]
    _, lost = ngram_tables(replace(comparison, ngrams=NgramContrast("B", won, won[:1])))
    assert lost.caption == "N-grams lost: right less often in B than in A"
    assert ngram_tables(Comparison(rows)) == []


def test_other_measures() -> None:
    (row,) = measure_table(Comparison([result_row("A", None, None)])).rows
    expected = "A 0.988 60.1 40.0 30.0 20.0 29.00 55.00 50.00"
    assert [cell.text for cell in row] == expected.split()


def test_columns_without_any_text_are_left_out() -> None:
    table = Table("x", ["a", "b", "c"], [[Cell("1"), Cell(""), Cell("", 2.0)]] * 2)
    assert table.without_empty_columns().columns == ["a"]
    assert table.is_number == [False, False, True]
    assert Table("x", ["a", "b"], []).is_number == [False, False]


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


def test_steps_and_networks_with_their_units() -> None:
    step = Step("a", "make a", "1.5", "2026-01-01T10:11:12+00:00", 125.0, 61.0, 3_400_000, 0, "box")
    table = step_table([step, replace(step, name="b", seconds=3725.0)])
    assert [cell.text for cell in table.rows[0][2:]] == [
        "2 min 05 s",
        "1 min 01 s",
        "3 MB",
        "make a",
    ]
    assert table.notes[0].startswith("All steps, one after the other: 1 h 04 min")
    points = [LogPoint(0, 0.0, 0.0, None, 6.5), LogPoint(1200, 1.25, 33.46, 5.0, 4.3216)]
    curves = {"net": LearningCurve("net", "cslm", points), "new": LearningCurve("new", "", [])}
    first, second = ([cell.text for cell in row] for row in network_table(curves).rows)
    assert first == ["net", "cslm", "1,200", "1.25", "33.5", "4.322"]
    assert second == ["new", "", "", "", "", ""]


def test_decodings_are_numbered_from_1() -> None:
    iterations = [Iteration({}, 30.126, 0.98765, 40.0), Iteration({}, 31.0, 1.0, 41.5, 32.25)]
    run = TuningRun("moses.ini", {}, 30.0, 7, 100, {}, [], iterations)
    assert [[cell.text for cell in row] for row in iteration_table({"r": run}).rows] == [
        ["r", "1", "30.13", "0.988", "40.00", ""],
        ["r", "2", "31.00", "1.000", "41.50", "32.25"],
    ]


def test_what_a_run_tuned_is_said_without_what_was_left_out() -> None:
    feature = NBestFeature("CSLM0", "rescorer nbest")
    decoder = {"stack_size": 50, "lmbr": None, "neural_lm": [], "cube": False}
    run = TuningRun("moses.ini", {}, 30.0, 7, 100, decoder, [feature])
    (row,) = command_table({"r": run}).rows
    assert [c.text for c in row] == [
        "r",
        "moses.ini",
        "100",
        "stack_size 50",
        "CSLM0: rescorer nbest",
    ]
