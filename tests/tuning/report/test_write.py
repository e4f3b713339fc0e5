"""The scores of one file in each form that may be asked for."""

from __future__ import annotations

import dataclasses
import json

from tuning.compare.output_scores import OutputScores
from tuning.report.write import format_scores

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
