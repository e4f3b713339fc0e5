"""The table and the picture of a scan with given numbers, and the scores of one file in each form."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError
from tuning.compare.output_scores import OutputScores, SystemScores
from tuning.compare.scan import Measures, Scan, ScanPoint
from tuning.report.pictures import plot_scan
from tuning.report.tables import scan_table, system_row
from tuning.report.write import format_scores, write_scan

NONE = Measures(-0.12, 39.898, 40.404, 0.9875, 0.0, 0.0)
PLAIN = Measures(-0.12, 39.94, 40.78, 0.98, 0.042, 0.19)
EQUAL = Measures(-0.1316, 40.13, 40.69, 0.9875, 0.232, 0.21)
ALONE = Measures(-0.13, 39.96, 40.05, 0.998, 0.06, 0.1)
POINTS = [ScanPoint(0.0, NONE, NONE, True), ScanPoint(0.01, PLAIN, EQUAL, True)]
EXAMPLE = Scan("rnn/moses.ini", "TM0_4", "WordPenalty0_0", 0.2, 500, POINTS, [ALONE])


def test_a_row_a_weight_and_then_the_other_weight_alone() -> None:
    rows = scan_table(EXAMPLE)[0]
    assert [row["TM0_4"] for row in rows] == ["0", "0.01", "0"]
    assert rows[1] == {
        "TM0_4": "0.01",
        "WordPenalty0_0": "-0.1200",
        "BLEU": "39.94",
        "precision": "40.78",
        "length": "0.980",
        "WordPenalty0_0 then": "-0.1316",
        "BLEU at equal length": "40.13",
        "its precision": "40.69",
        "delta": "+0.23",
        "s.e.": "0.21",
    }
    assert (rows[2]["length"], rows[2]["delta"]) == ("0.998", "")
    assert "own weight of TM0_4 is 0.2" in scan_table(EXAMPLE)[1][0]


def test_a_length_that_was_missed_is_marked() -> None:
    missed = replace(EXAMPLE, points=[POINTS[0], replace(POINTS[1], has_length=False)])
    assert [row["BLEU at equal length"] for row in scan_table(missed)[0]] == ["39.90", "40.13*", ""]
    assert scan_table(missed)[1][-1].startswith("*: the length was not reached")
    assert "not reached" not in " ".join(scan_table(EXAMPLE)[1])


def test_all_forms_are_written(tmp_path: Path) -> None:
    text = write_scan(EXAMPLE, tmp_path)
    assert text == (tmp_path / "scan.txt").read_text()
    assert "| 0.01 | -0.1200 | 39.94 |" in (tmp_path / "scan.md").read_text()
    stored = json.loads((tmp_path / "scan.json").read_text())
    assert stored["points"][1]["equal"]["error"] == 0.21
    assert stored["without"][0]["length_ratio"] == 0.998
    picture = (tmp_path / "scan.svg").read_text()
    for shown in ("weight of TM0_4", "at equal length", "WordPenalty0_0 alone", "n-gram precision"):
        assert f"<!-- {shown}" in picture
    write_scan(EXAMPLE, tmp_path / "again")
    assert (tmp_path / "again" / "scan.svg").read_text() == picture


def test_a_picture_has_one_of_two_suffixes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.pdf: expected a name that ends in \.png or \.svg"):
        plot_scan(EXAMPLE, tmp_path / "a.pdf")


SCORES = OutputScores(
    bleu=31.416,
    bootstrap_sd=1.25,
    precisions=[60.0, 40.0, 30.0, 20.0],
    length_ratio=0.987,
    output_words=987,
    reference_words=1000,
    detokenised_bleu=30.5,
    chrf=55.5,
    ter=49.99,
    signatures=["BLEU|detokenised|nrefs:1", "chrF|x", "TER|x"],
)


def test_json_has_all_digits() -> None:
    assert json.loads(format_scores(SCORES, "json")) == dataclasses.asdict(SCORES)


def test_tables_have_two() -> None:
    markdown = format_scores(SCORES, "markdown").split("\n")
    assert markdown[1] == "| --- | --- | --- | --- | --- | --- | --- |"
    assert markdown[2].startswith("| 31.42 | 1.25 | 0.987 | 60.0/40.0/30.0/20.0 | ")
    assert "49.99\n" in format_scores(SCORES, "text")
    latex = format_scores(SCORES, "latex")
    assert latex.startswith("% BLEU|detokenised|nrefs:1")
    assert r"\begin{tabular}{lrrrrrr}" in latex


def test_a_system_has_the_means_of_its_files() -> None:
    other = replace(SCORES, bleu=32.416, precisions=[61.0, 41.1, 30.0, 20.0])
    means = vars(SCORES) | {"bleu": 31.916}
    files, numbers = ["a", "b"], (means, {"bleu": 0.7071})
    row = system_row(SystemScores("S", files, *numbers, [SCORES, other]))
    assert (row["system"], row["files"], row["BLEU"], row["s.d."]) == ("S", "2", "31.92", "0.71")
    assert (row["1/2/3/4-gram"], row["detok. BLEU"]) == ("60.5/40.5/30.0/20.0", "30.50")
    assert system_row(SystemScores("S", ["a"], means, {}, [SCORES]))["s.d."] == "*"
