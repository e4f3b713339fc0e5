"""Every chart is one that Vega-Lite takes, with the numbers it was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tuning.compare.translated_text import read_translated_text
from tuning.report.page.chart import COLOURS, FEW_SYSTEMS, MUTED, Chart, Palette
from tuning.report.page.contents import gather
from tuning.report.page.inputs import ReportInputs
from tuning.report.page.system_charts import length_chart

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
    names = "delta ngrams bleu-by-length dev-bleu weights learning-1 scatter-1 map-1"
    assert set(charts) == set(names.split())
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
    kept = rows(charts["weights"])
    assert {row["column"] for row in kept} == {"LM0", "T0_0", "T0_1"}
    by_run = {run: [row for row in kept if row["run"] == run] for run in {r["run"] for r in kept}}
    assert len(by_run) == 4
    assert all(sum(abs(r["weight"]) for r in each) == pytest.approx(1) for each in by_run.values())
    losses = [row["nats"] for row in rows(charts["learning-1"]) if row["loss"] == "held out"]
    assert losses == [6.0, 3.0, 2.0, 1.5, 1.2]
    assert len(rows(charts["learning-1"])) == 9


def test_bleu_by_length_is_that_of_the_sentences_of_that_length(tmp_path: Path) -> None:
    reference = "a b c d e f g h\ni j k l\nm n o p\n"
    output = "a b c d e f g h\ni j k x\nm n o p\n"
    for name, text in {"source": reference, "reference": reference, "output": output}.items():
        (tmp_path / name).write_text(text)
    paths = {"A": tmp_path / "output"}
    text = read_translated_text(tmp_path / "source", [tmp_path / "reference"], paths)
    chart = length_chart(text, Palette(["A"], "A"))
    assert chart is not None
    short, long = rows(chart)
    assert (short["length"], short["sentences"], long["length"]) == ("1–5", 2, "6–10")
    assert long["BLEU"] == pytest.approx(100)
    # 7 of 8 words, 5 of 6, 3 of 4 and 1 of 2 n-grams (Papineni et al. 2002, section 2.3)
    assert short["BLEU"] == pytest.approx(100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25)


def test_one_class_of_lengths_is_no_chart(tmp_path: Path) -> None:
    for name in ("source", "reference", "output"):
        (tmp_path / name).write_text("a b\nc d e\n")
    paths = {"A": tmp_path / "output"}
    text = read_translated_text(tmp_path / "source", [tmp_path / "reference"], paths)
    assert length_chart(text, Palette(["A"], "A")) is None


def test_lengths_are_set_against_the_first_system(tmp_path: Path) -> None:
    reference = "a b c d e f g h\ni j k l\n"
    outputs = {"A": "a b c d e f g h\ni j k x\n", "B": reference}
    for name, lines in {"source": reference, "reference": reference, **outputs}.items():
        (tmp_path / name).write_text(lines)
    paths = {name: tmp_path / name for name in outputs}
    text = read_translated_text(tmp_path / "source", [tmp_path / "reference"], paths)
    chart = length_chart(text, Palette(["A", "B"], "B"))
    assert chart is not None
    short, long = rows(chart)
    assert (short["system"], short["BLEU"], long["change"]) == ("B", pytest.approx(100), 0.0)
    # A has 3 of 4 words, 2 of 3, 1 of 2 and 0 of 1 n-grams right: BLEU 0.
    assert short["change"] == pytest.approx(100)


def test_a_system_has_one_colour_in_all_charts(charts: dict[str, Chart]) -> None:
    baseline, other = (row["system"] for row in rows(charts["dev-bleu"])[::6])
    colours: dict[str, set[str]] = {baseline: set(), other: set()}

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            scale = value.get("scale")
            if value.get("field") == "system" and scale:
                for system, colour in zip(scale["domain"], scale["range"], strict=True):
                    colours[system].add(colour)
            for each in value.values():
                collect(each)
        elif isinstance(value, list):
            for each in value:
                collect(each)

    for chart in charts.values():
        collect({key: part for key, part in chart.spec.items() if key != "data"})
    assert colours == {baseline: {MUTED}, other: {COLOURS[0]}}


def test_of_many_systems_the_best_is_picked() -> None:
    names = [f"S{number}" for number in range(FEW_SYSTEMS + 1)]
    pick, _, _ = Palette(names, "S2").picked(names)
    assert pick["value"] == [{"system": "S2"}]
    pick, _, _ = Palette(names, "S2").picked(names[3:])
    assert "value" not in pick


def test_the_axis_reaches_to_the_last_iteration_of_any_run(
    maker: type[Maker], tmp_path: Path
) -> None:
    made = maker.experiment(tmp_path, ["A"], 2, 3, False)
    path = made.runs[0] / "weights.json"
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"iterations": value["iterations"][:1]}))
    charts = gather(ReportInputs(runs=made.runs)).charts
    (chart,) = (chart for chart in charts if chart.name == "dev-bleu")
    last = max(row["iteration"] for row in rows(chart))
    assert f'"values": {[*range(1, last + 1)]}' in json.dumps(chart.spec)


def test_a_weight_that_is_not_tuned_is_left_out(maker: type[Maker], tmp_path: Path) -> None:
    made = maker.experiment(tmp_path, ["A"], 1, 3, False)
    path = made.runs[0] / "weights.json"
    value = json.loads(path.read_text())
    for iteration in value["iterations"]:
        iteration["weights"]["UnknownWordPenalty0"] = [1.0]
    path.write_text(json.dumps(value))
    contents = gather(ReportInputs(runs=made.runs))
    (chart,) = (chart for chart in contents.charts if chart.name == "weights")
    assert {row["column"] for row in rows(chart)} == {"LM0", "T0_0", "T0_1"}


def test_runs_of_other_columns_have_dots_where_they_have_weights(
    maker: type[Maker], tmp_path: Path
) -> None:
    made = maker.experiment(tmp_path, ["A"], 2, 3, False)
    path = made.runs[0] / "weights.json"
    value = json.loads(path.read_text())
    for iteration in value["iterations"]:
        iteration["weights"]["RNN0"] = [0.1]
    path.write_text(json.dumps(value))
    (chart,) = (c for c in gather(ReportInputs(runs=made.runs)).charts if c.name == "weights")
    assert [row["column"] for row in rows(chart)].count("RNN0") == 1
    assert [row["column"] for row in rows(chart)].count("LM0") == 2
