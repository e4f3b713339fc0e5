"""Sentences of tables made by hand, and people's agreement with a metric, against its authors' tool."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tuning.compare.comparison import Comparison, Contrast, ResultRow, read_comparison
from tuning.report.verdict import human_agreement, verdict
from tuning.report.write import write_comparison


def a_row(
    system: str, bleu: float, contrast: Contrast | None = None, n_networks: int = 1
) -> ResultRow:
    numbers = (30.0, 0.1, bleu, 0.1)
    scores = (1.0, [60.0, 40.0, 30.0, 20.0], 0.4, bleu + 1, bleu + 20, 50.0)
    return ResultRow(system, *numbers, contrast, None, 3, n_networks, None, *scores, {}, [])


def contrast(delta: float, p: float, least: float = 0.5, covers_runs: bool = True) -> Contrast:
    return Contrast(delta, (delta - 0.4, delta + 0.4), p / 2, p, least, covers_runs)


BASELINE = replace(a_row("Baseline", 30.0), same_models=True)


def test_a_significant_gain() -> None:
    rows = [
        BASELINE,
        a_row("+A", 31.0, contrast(1.0, 0.01), 3),
        a_row("+B", 30.2, contrast(0.2, 0.4, 0.7), 3),
    ]
    assert verdict(Comparison(rows)) == [
        "The highest test BLEU is 31.00, of +A: 1.00 more than Baseline.",
        "Significantly better than Baseline (corrected p < 0.05): +A (+1.00).",
        "Smaller true gains than 0.50 (+A) to 0.70 BLEU (+B) could go unseen: only from there on are they "
        "found (p < 0.05, uncorrected) in 80% of cases.",
        "How often people prefer the system with the better score, estimated from the detokenised scores of +A "
        "against Baseline (Kocmi et al. 2024): 64% with +1.00 BLEU, 70% with +1.00 chrF.",
    ]


def test_a_lead_that_may_be_chance() -> None:
    rows = [BASELINE, a_row("+A", 30.1, contrast(0.1, 0.05), 2)]
    found = verdict(Comparison(rows))
    assert found[0] == "The highest test BLEU is 30.10, of +A: 0.10 more than Baseline."
    assert found[1] == "No system is significantly better than Baseline (corrected p < 0.05)."
    assert found[2].startswith("Smaller true gains than 0.50 BLEU (+A) could go unseen")
    # The fits give 46% and 49%: below a coin's share they say nothing.
    assert found[3].endswith(
        "no more than chance with +0.10 BLEU, no more than chance with +0.10 chrF."
    )


def test_limits_are_named_from_the_least_to_the_most() -> None:
    rows = [BASELINE, a_row("+Z", 30.1, contrast(0.1, 0.4, 0.5), 2)]
    rows += [a_row("+M", 30.1, contrast(0.1, 0.4, 0.6), 2), a_row("+A", 30, contrast(0, 1, 0.7), 2)]
    assert "0.50 (+Z) to 0.70 BLEU (+A) could" in verdict(Comparison(rows))[2]


def test_the_baseline_is_best_and_a_row_significantly_worse() -> None:
    found = verdict(Comparison([BASELINE, a_row("+A", 29.0, contrast(-1.0, 0.001), 2)]))
    assert (
        found[0]
        == "The highest test BLEU is 30.00, of Baseline, the baseline: no system is better."
    )
    assert found[1] == (
        "No system is significantly better than Baseline (corrected p < 0.05). "
        "Significantly worse: +A (-1.00)."
    )
    assert len(found) == 3  # no lead that people could judge


def test_ties_are_by_the_printed_digits() -> None:
    several = [
        a_row("+A", 30.501, contrast(0.501, 0.04), 2),
        a_row("+B", 30.499, contrast(0.499, 0.03), 2),
    ]
    found = verdict(Comparison([BASELINE, *several]))
    assert found[0] == "The highest test BLEU is 30.50, of +A and +B: 0.50 more than Baseline."
    assert found[1].endswith(": +A (+0.50), +B (+0.50).")
    same = replace(contrast(0.0, 1.0), smallest_found=0.0)
    found = verdict(Comparison([BASELINE, a_row("Same", 30.0, same, 2)]))
    assert found == [
        "The highest test BLEU is 30.00, of Baseline and Same.",
        "No system is significantly better than Baseline (corrected p < 0.05).",
    ]


def test_a_gain_that_the_control_has_too() -> None:
    like_noise = replace(
        a_row("+A", 31.0, contrast(1.0, 0.01), 2), against_control=contrast(-0.1, 0.8)
    )
    beyond = replace(a_row("+B", 30.9, contrast(0.9, 0.02), 2), against_control=contrast(0.8, 0.02))
    noise = a_row("noise", 31.1, contrast(1.1, 0.01), 3)
    found = verdict(Comparison([BASELINE, like_noise, beyond, noise], control="noise"))
    assert found[0].endswith(
        "of noise: 1.10 more than Baseline; noise is the control, which cannot help."
    )
    assert found[1].endswith(
        "+A (+1.00), +B (+0.90), noise (+1.10). Not significantly better than the control noise: +A."
    )
    assert len(found) == 3  # people are not asked about noise


def test_one_run_and_one_network() -> None:
    single = contrast(1.0, 0.01, covers_runs=False)
    found = verdict(Comparison([BASELINE, a_row("+A", 31.0, single)]))
    assert found[1].endswith(
        "+A (+1.00). The p-values are over test sentences alone, with one tuning run each."
    )
    one = a_row("+B", 30.5, contrast(0.5, 0.2))
    found = verdict(Comparison([BASELINE, a_row("+A", 31.0, single), one]))
    assert found[1].endswith(
        " The p-values of +A are over test sentences alone, with one tuning run each. "
        "Of +B one network was trained; another one may differ."
    )
    optimiser = replace(one, same_models=True)
    assert "network" not in verdict(Comparison([BASELINE, optimiser]))[1]


def test_metrics_that_disagree() -> None:
    row = replace(a_row("+A", 31.0, contrast(1.0, 0.01), 2), chrf=49.75)
    assert verdict(Comparison([BASELINE, row]))[3].endswith(
        ": 64% with +1.00 BLEU, no gain with -0.25 chrF."
    )


def test_a_system_alone_has_no_verdict(tmp_path: Path) -> None:
    assert verdict(Comparison([])) == verdict(Comparison([BASELINE])) == []
    assert write_comparison(Comparison([BASELINE]), tmp_path).startswith("  system dev BLEU")


def test_a_system_may_be_named_by_a_file_that_is_no_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    write_comparison(Comparison([replace(BASELINE, system=name)]), tmp_path)
    assert "caf\\udce9" in (tmp_path / "table.txt").read_text()
    assert read_comparison(tmp_path / "table.json").rows[0].system == name


def test_it_is_on_top_of_each_form(tmp_path: Path) -> None:
    rows = [BASELINE, a_row("<i>|A", 31.0, contrast(1.0, 0.01), 2)]
    text = write_comparison(Comparison(rows), tmp_path)
    first, *_, blank, head = text.split("\n")[:6]
    assert first == "The highest test BLEU is 31.00, of <i>|A: 1.00 more than Baseline."
    assert blank == ""
    assert head.split()[:2] == ["system", "dev"]
    markdown = (tmp_path / "table.md").read_text().split("\n")
    assert markdown[0] == "The highest test BLEU is 31.00, of &lt;i>|A: 1.00 more than Baseline.  "
    assert markdown[4] == ""
    assert markdown[5].startswith("| system |")
    assert (tmp_path / "table.tex").read_text().startswith("% The highest test BLEU is 31.00, of")


def test_the_values_that_the_authors_state() -> None:
    """README of MT-Thresholds: 63.989% for 1.00 BLEU, and 0.710 chrF for the same."""
    assert human_agreement(1.0, "BLEU") == pytest.approx(63.989, abs=5e-4)
    assert human_agreement(0.710, "chrF") == pytest.approx(63.989, abs=0.02)


def test_the_fit_ends_below_certainty() -> None:
    assert human_agreement(100.0, "BLEU") == pytest.approx(88.333, abs=5e-4)
    assert human_agreement(0.0, "chrF") == pytest.approx(46.5)


def test_a_negative_lead_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"a lead of -0\.5: expected 0 or more"):
        human_agreement(-0.5, "BLEU")
