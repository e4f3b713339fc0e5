"""People's agreement with a metric, against what the authors' tool prints."""

from __future__ import annotations

import pytest

from tuning.report.verdict import human_agreement


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
