"""A comparison comes back from its JSON as it was; anything else is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from tuning.compare.comparison import Comparison, Contrast, ResultRow, RunSummary, read_comparison
from tuning.report.forms import to_json

RUN = RunSummary("r1", 3, 3, "weights settled", True, 30.0, 29.5, ["LM0_0"], [])
ROW = ResultRow(
    system="Baseline",
    dev_bleu=30.0,
    dev_sd=None,
    test_bleu=29.5,
    test_sd=None,
    against_baseline=None,
    against_control=Contrast(0.5, (0.1, 0.9), 0.02, 0.04, 0.7, True),
    n_runs=1,
    n_networks=1,
    network_sd=None,
    length_ratio=1.01,
    precisions=[60.0, 40.0, 30.0, 20.0],
    bootstrap_sd=0.4,
    detokenised_bleu=28.0,
    chrf=55.0,
    ter=50.0,
    weights={"LM0": [0.5]},
    runs=[RUN],
)
COMPARISON = Comparison([ROW], "BLEU|x", ["chrF|x"], 100, "control")


def test_it_comes_back(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text(to_json(COMPARISON))
    assert read_comparison(tmp_path / "table.json") == COMPARISON


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"rows": [{}]}',
        json.dumps({"rows": [], "more": 1}),
        to_json(COMPARISON).replace('"directory"', '"place"'),
        to_json(COMPARISON).replace("0.1,", ""),
    ],
)
def test_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(InputError, match=r"expected a table\.json of tuning compare"):
        read_comparison(tmp_path / "table.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json"):
        read_comparison(tmp_path / "none.json")


def test_a_number_that_is_not_finite_is_named(tmp_path: Path) -> None:
    """Python's JSON reader takes NaN for a number, and the page cannot show it."""
    record = json.loads(to_json(COMPARISON))
    record["rows"][0]["test_bleu"] = float("nan")
    (tmp_path / "table.json").write_text(json.dumps(record))
    with pytest.raises(
        InputError, match=r"nan in 'rows\[0\]\.test_bleu', expected a finite number"
    ):
        read_comparison(tmp_path / "table.json")
