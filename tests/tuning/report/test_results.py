"""The frame of a comparison."""

from __future__ import annotations

from dataclasses import replace

from tests.tuning.report.page.test_table import result_row
from tuning.compare.comparison import Comparison, FarScores
from tuning.report.results import Compared


def test_numbers_of_far_sentences_are_those_of_the_text_without_lists() -> None:
    far = FarScores(20.5, None, 0.7, 0.95, [50.0, 30.0, 20.0, 10.0], None, None)
    row = replace(result_row("A", None, None), far=far)
    frame = Compared(Comparison([row])).frame()
    names = ["far.test_bleu", "far.test_sd", "far.bootstrap_sd", "far.length_ratio"]
    assert [name for name in frame if name.startswith("far.")] == names
    assert frame[names].iloc[0].fillna(-1.0).tolist() == [20.5, -1.0, 0.7, 0.95]
