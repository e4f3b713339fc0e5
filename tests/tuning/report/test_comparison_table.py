"""A comparison as text: its cells and what the notes below it say, by hand."""

from __future__ import annotations

from dataclasses import replace

from tests.tuning.report.page.test_table import result_row
from tuning.compare.comparison import LOWERCASED, Comparison, Contrast, FarScores, RunSummary
from tuning.loop.run_directory import LIMIT
from tuning.report.comparison_table import comparison_notes, comparison_rows

SURE = Contrast(1.254, (0.5, 2.004), 0.00004, 0.0301, 0.7, True)
OF_TEXTS = Contrast(-0.1, (-1.0, 0.8), 0.5, 0.75, 0.654, False)
RUN = RunSummary("runs/r1", 3, 3, "settled", True, 30.0, 29.5, [], [])


def test_each_cell_has_its_digits_and_marks() -> None:
    far = FarScores(24.256, 0.2, 0.51, 1.0, [50.0, 30.0, 20.0, 10.0], OF_TEXTS, None)
    runs = [RUN, replace(RUN, end=LIMIT, n_iterations=15), replace(RUN, n_iterations=0)]
    system = replace(
        result_row("+A", SURE, 0.1),
        **{"far": far, "runs": runs, "against_control": OF_TEXTS, "metrics": {"cer": 7.456}},
    )
    first = replace(result_row("Baseline", None, None), dev_bleu=None)
    rows = comparison_rows(Comparison([first, system], control="Noise"))
    assert [row["system"] for row in rows] == ["Baseline", "+A", "+A (far)"]
    assert (rows[0]["dev BLEU"], rows[0]["dev s.d."], rows[0]["test s.d."]) == ("", "", "*")
    assert {rows[0][name] for name in ("delta", "95%", "p", "Holm", "vs control")} == {""}
    assert rows[1] == {
        **{"system": "+A", "dev BLEU": "31.01", "dev s.d.": "0.10"},
        **{"test BLEU": "30.50", "test s.d.": "0.10", "text s.d.": "0.40"},
        **{"delta": "+1.25", "95%": "+0.50..+2.00", "p": "0.0000", "Holm": "0.0301"},
        **{"vs control": "-0.10", "its Holm": "0.7500", "runs": "3", "iterations": "3/15+"},
        **{"length": "0.988", "1/2/3/4-gram": "60.1/40.0/30.0/20.0", "detok. BLEU": "29.00"},
        **{"chrF": "55.00", "TER": "50.00", "tuned: cer": "7.46"},
    }
    assert (rows[2]["test BLEU"], rows[2]["p"], rows[2]["runs"]) == ("24.26", "0.5000*", "")


def test_notes_say_what_the_numbers_rest_on() -> None:
    other = replace(
        result_row("+A", SURE, 0.1),
        runs=[RUN, replace(RUN, directory="runs/r2", left_start=False, constant=["B", "A"])],
        tuned_for="cer",
    )
    third = replace(
        result_row("+B", OF_TEXTS, 0.1),
        runs=[replace(RUN, left_start=False, same_output_as=["x/r8", "r9"], caution="it is 0")],
        n_networks=4,
        network_sd=0.256,
    )
    first = replace(result_row("Baseline", None, 0.1), metrics={LOWERCASED: 35.0})
    comparison = Comparison([first, other, third], "BLEU|x", ["chrF|y"], n_documents=1200)
    notes = comparison_notes(comparison)
    said = "\n".join(notes)
    for each in (
        "p over texts and runs (*: over texts alone, one run each): jackknife",
        "texts by document (1,200) + variance",
        "Holm: p corrected for 2 rows.",
        "as large as: 0.70 (+A), 0.65 (+B).",
        "+A: p and intervals: over texts and tunings of this one network;",
        "+A: tuned for cer, not for BLEU.",
        "+A: did not leave the start: r2.",
        "+A: A, B without effect",
        "+B: 4 networks or noise columns, standard deviation of their means 0.26.",
        "+B: nothing moved; the row is that of the weights it started from.",
        "+B: the test output of r1 is also that of r8, r9.",
        "+B: warning about the tuning of r1: it is 0.",
    ):
        assert each in said
    assert said.count("warning") == 1 and "tuned: NAME" not in said and "vs control" not in said
    assert notes[-2:] == ["BLEU|x", "chrF|y"]
    assert "tuned: NAME" in "\n".join(
        comparison_notes(Comparison([replace(first, metrics={"a": 1})]))
    )
