"""Every chart is one that Vega-Lite takes, with the numbers it was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tuning.report.page.chart import Chart
from tuning.report.page.contents import ReportInputs, gather
from tuning.report.page.sentences import read_translated_text
from tuning.report.page.table_charts import length_chart

if TYPE_CHECKING:
    from tests.tuning.report.page.conftest import Experiment, Maker


@pytest.fixture(scope="module")
def charts(
    hostile: Experiment, maker: type[Maker], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Chart]:
    folder = tmp_path_factory.mktemp("charts")
    inputs = ReportInputs(
        tables=[hostile.table],
        source=hostile.source,
        references=[hostile.reference],
        models=[maker.network(folder, "cslm")],
        scored=[maker.scored_table(folder / "table", 50)],
        maps=[maker.map(folder / "map.json", 30)],
    )
    return {chart.name: chart for chart in gather(inputs).charts}


def rows(chart: Chart) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = chart.spec["data"]["values"]
    return values


def test_vega_lite_takes_them(charts: dict[str, Chart]) -> None:
    vl_convert = pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    assert set(charts) == {
        "delta",
        "ngrams",
        "bleu-by-length",
        "dev-bleu",
        "weights",
        "learning-1",
        "scatter-1",
        "map-1",
    }
    for chart in charts.values():
        compiled = vl_convert.vegalite_to_vega(chart.spec, vl_version="6.1")
        assert compiled["marks"], chart.name
        assert compiled["description"]
        if chart.zoomed:
            signals = {signal["name"] for signal in compiled["signals"]}
            ends = {f"{chart.zoomed}_{field}" for field in chart.fields}
            assert ends <= signals, (chart.name, signals)


def test_differences_are_those_of_the_table(charts: dict[str, Chart], hostile: Experiment) -> None:
    contrast = json.loads(hostile.table.read_text())["rows"][1]["against_baseline"]
    (row,) = rows(charts["delta"])
    assert [row["low"], row["high"]] == contrast["interval"]
    assert row["delta"] == contrast["delta"]


def test_precisions_are_set_against_the_baseline(
    charts: dict[str, Chart], hostile: Experiment
) -> None:
    baseline, other = json.loads(hostile.table.read_text())["rows"]
    assert [row["precision"] for row in rows(charts["ngrams"])] == other["precisions"]
    for row, before in zip(rows(charts["ngrams"]), baseline["precisions"], strict=True):
        assert row["change"] == pytest.approx(row["precision"] - before)


def test_runs_weights_and_losses(charts: dict[str, Chart]) -> None:
    assert len(rows(charts["dev-bleu"])) == 12
    assert sum(row["kept"] for row in rows(charts["dev-bleu"])) == 4
    first = [row for row in rows(charts["weights"]) if row["iteration"] == 1]
    by_run = {run: [row for row in first if row["run"] == run] for run in {r["run"] for r in first}}
    assert all(sum(abs(r["weight"]) for r in each) == pytest.approx(1) for each in by_run.values())
    losses = [row["nats"] for row in rows(charts["learning-1"]) if row["loss"] == "held out"]
    assert losses == [6.0, 3.0, 2.0, 1.5, 1.2]
    assert len(rows(charts["learning-1"])) == 9


def test_bleu_by_length_is_that_of_the_sentences_of_that_length(tmp_path: Path) -> None:
    reference = "a b c d e f g h\ni j k l\nm n o p\n"
    output = "a b c d e f g h\ni j k x\nm n o p\n"
    for name, text in {"source": reference, "reference": reference, "output": output}.items():
        (tmp_path / name).write_text(text)
    text = read_translated_text(
        tmp_path / "source", [tmp_path / "reference"], {"A": tmp_path / "output"}
    )
    chart = length_chart(text)
    assert chart is not None
    short, long = rows(chart)
    assert (short["length"], short["sentences"], long["length"], long["BLEU"]) == (
        "1–5",
        2,
        "6–10",
        pytest.approx(100),
    )
    # 7 of 8 words, 5 of 6, 3 of 4 and 1 of 2 n-grams (Papineni et al. 2002, section 2.3)
    assert short["BLEU"] == pytest.approx(100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25)


def test_one_class_of_lengths_is_no_chart(tmp_path: Path) -> None:
    for name in ("source", "reference", "output"):
        (tmp_path / name).write_text("a b\nc d e\n")
    text = read_translated_text(
        tmp_path / "source", [tmp_path / "reference"], {"A": tmp_path / "output"}
    )
    assert length_chart(text) is None
