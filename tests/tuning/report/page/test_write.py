"""The page without a browser: what stands in its HTML, and that it needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from markupsafe import escape

from moses_bridge.base.errors import ConfigError, InputError, MissingExtraError, extra_named
from tuning.cli import main
from tuning.compare.comparison import read_comparison
from tuning.compare.translations import output_path
from tuning.report.page.contents import gather
from tuning.report.page.inputs import ReportInputs
from tuning.report.page.write import plotting_library, render, write_report
from tuning.report.verdict import verdict

if TYPE_CHECKING:
    from tests.tuning.report.page.conftest import Experiment, Maker

LIBRARY = "window.vegaEmbed = () => {};"


class Page(HTMLParser):
    """Elements of a page: their attributes, and the text of scripts, headings and cells."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "input", "br"):
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def data(self, name: str) -> Any:
        """The JSON in a script."""
        scripts = [attributes for tag, attributes in self.elements if tag == "script"]
        place = next(i for i, each in enumerate(scripts) if each.get("id") == name)
        return json.loads(self.texts["script"][place])


@pytest.fixture(scope="module")
def text(hostile: Experiment) -> str:
    return render(gather(hostile.inputs()), LIBRARY)


def test_it_is_the_same_each_time(hostile: Experiment, text: str) -> None:
    assert render(gather(hostile.inputs()), LIBRARY) == text


def test_it_names_nothing_outside(text: str) -> None:
    page = Page(text)
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "object", "base", "form action")
        for name in ("src", "href", "action", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:,")), (tag, value)
    style = "".join(page.texts["style"])
    assert "url(" not in style
    assert "@import" not in style


def test_its_policy_allows_its_own_scripts_alone(text: str) -> None:
    page = Page(text)
    (policy,) = (
        attributes["content"] for tag, attributes in page.elements if "http-equiv" in attributes
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    for script, attributes in zip(page.texts["script"], scripts, strict=True):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert (f"'sha256-{digest}'" in policy) == ("type" not in attributes)


def test_all_tables_and_sections_are_there(hostile: Experiment, text: str) -> None:
    page = Page(text)
    identities = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identities) == len(set(identities))
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert {link[1:] for link in links if link} <= set(identities)
    assert page.texts["h2"] == ["Results", "Tuning", "Sentences", "What was run"]
    table = json.loads(hostile.table.read_text())
    cells = page.texts["td"] + page.texts["th"]
    for row in table["rows"]:
        assert row["system"] in cells
        assert f"{row['test_bleu']:.2f} ± {row['test_sd']:.2f}" in cells
        for value in row["precisions"]:
            assert f"{value:.1f}" in cells
    notes = page.texts["li"]
    assert table["signature"] in notes
    assert set(table["detokenised_signatures"]) <= set(notes)
    headings = [attributes for tag, attributes in page.elements if tag == "th"]
    assert all(attributes.get("scope") in ("col", "row") for attributes in headings)


def test_the_verdict_is_first_in_the_results(hostile: Experiment, text: str) -> None:
    """Names are text in it, as everywhere."""
    best, *_ = verdict(read_comparison(hostile.table))
    _, results = text.split('<section id="results"')
    paragraph = results.index(f"<p>{escape(best)}</p>")
    assert paragraph < results.index("<table")
    assert "<b>&" not in results


def test_every_sentence_is_there_as_people_read_it(hostile: Experiment, text: str) -> None:
    """Whatever it has, but without Moses's escapes."""
    data = Page(text).data("text-data")
    lines = hostile.source.read_bytes().decode().split("\n")[:-1]
    assert data["systems"] == ["Baseline", "+RNN <b>&\"'</b>"]
    assert len(data["sentences"]) == len(lines)
    for (source, references, distinct, places), line in zip(data["sentences"], lines, strict=True):
        assert source == html.unescape(" ".join(word for word in line.split(" ") if word))
        assert references == [source]
        assert len(places) == 2
        assert set(places) == set(range(len(distinct)))
    assert "<script>window.hacked" not in text
    assert text.count("</script>") == text.count("<script") == 4


def test_outputs_that_are_equal_stand_there_once(maker: type[Maker], tmp_path: Path) -> None:
    made = maker.experiment(tmp_path, ["A", "B", "C"], 1, 3, False)
    for number, lines in enumerate(("x\ny\nz\n", "x\nw\nz\n", "v\ny\nz\n")):
        output_path(made.runs[number], made.source).write_text(lines)
    data = Page(render(gather(made.inputs()), LIBRARY)).data("text-data")
    shown = [([output[0] for output in each[2]], each[3]) for each in data["sentences"]]
    assert shown == [(["x", "v"], [0, 0, 1]), (["y", "w"], [0, 1, 0]), (["z"], [0, 0, 0])]


def test_runs_without_a_table(hostile: Experiment) -> None:
    contents = gather(ReportInputs(runs=hostile.runs[:1]))
    assert [section.title for section in contents.sections] == ["Tuning", "What was run"]
    assert contents.text is None
    assert contents.subtitle.startswith("1 tuning run.")
    page = Page(render(contents, LIBRARY))
    assert page.data("text-data") is None
    (chart,) = (chart for chart in contents.charts if chart.name == "dev-bleu")
    assert [row["dev BLEU"] for row in chart.spec["data"]["values"]] == [31.0, 32.0, 33.0]


def test_everything_at_once_by_the_command(
    hostile: Experiment, maker: type[Maker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuning.report.page.write.plotting_library", lambda: LIBRARY)
    out = tmp_path / "new" / "report.html"
    steps = tmp_path / "steps.jsonl"
    step = {"name": "<i>x", "command": "rm '<b>'", "version": "1", "started": "2026-01-01T10:00:00"}
    step |= {"seconds": 61, "processor_seconds": 2, "peak_memory": 3_000_000, "status": 0}
    steps.write_text(json.dumps(step | {"machine": "two processors"}) + "\n")
    options = {
        "--comparison": hostile.table,
        "--source": hostile.source,
        "--reference": hostile.reference,
        "--model": maker.network(tmp_path, "cslm"),
        "--scored": maker.scored_table(tmp_path / "table", 200),
        "--map": maker.map(tmp_path / "words.json", 20),
        "--steps": steps,
        "--title": "Ünder <b>",
        "--out": out,
    }
    words = [str(word) for pair in options.items() for word in pair]
    result = CliRunner().invoke(main, ["report", *words])
    assert result.exit_code == 0, result.output
    page = Page(out.read_text())
    assert page.texts["h1"] == ["Ünder <b>"]
    assert page.texts["h2"][2:5] == ["Networks", "Scores against the table", "Maps"]
    assert "1 min 01 s" in page.texts["td"]
    assert "rm '<b>'" in page.texts["td"]
    charts = page.data("chart-data")
    assert {"learning-1", "scatter-1", "map-1"} <= set(charts)
    assert re.search(r"\b200 pairs?\b|200 of 200 pairs", "".join(page.texts["span"]))


def test_a_second_table_adds_its_systems_once(
    hostile: Experiment, maker: type[Maker], tmp_path: Path
) -> None:
    table = json.loads(hostile.table.read_text())
    table["rows"][1]["system"] = "the same run"
    (tmp_path / "controls").mkdir()
    second = tmp_path / "controls" / "table.json"
    second.write_text(json.dumps(table))
    inputs = hostile.inputs()
    contents = gather(replace(inputs, tables=[*inputs.tables, second]))
    titles = [section.title for section in contents.sections]
    assert titles[:3] == ["Results", "Results: controls", "Tuning"]
    assert contents.text is not None
    assert contents.text.systems == ["Baseline", "+RNN <b>&\"'</b>"]
    assert len({chart.name for chart in contents.charts}) == len(contents.charts)


def test_a_run_without_a_translation_is_left_out_with_a_line(
    maker: type[Maker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = maker.experiment(tmp_path, ["A", "B"], 1, 5, False)
    output_path(made.runs[1], made.source).unlink()
    contents = gather(made.inputs())
    assert contents.text is not None
    assert contents.text.systems == ["A"]
    assert "system1-0 has no translation" in capsys.readouterr().err


def test_what_does_not_fit_is_refused(hostile: Experiment, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run directory and no table"):
        gather(ReportInputs())
    with pytest.raises(ConfigError, match="belong together"):
        gather(ReportInputs(runs=hostile.runs, source=hostile.source))
    with pytest.raises(InputError, match=r"weights\.json"):
        gather(ReportInputs(runs=[tmp_path]))
    other = tmp_path / "other"
    other.write_text("x\n")
    with pytest.raises(ConfigError, match="run `tuning compare` first"):
        gather(ReportInputs(tables=[hostile.table], source=other, references=[other]))


def test_an_error_leaves_no_page_and_no_traceback(hostile: Experiment, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    (tmp_path / "map.json").write_text('{"points": [{}]}')
    words = ["report", str(hostile.runs[0]), "--map", str(tmp_path / "map.json")]
    result = CliRunner().invoke(main, [*words, "--out", str(out)])
    assert result.exit_code == 1
    assert "map.json: found KeyError 'frequency' in point 1" in result.stderr
    assert "Traceback" not in result.stderr
    assert not out.exists()


def test_without_the_library_the_error_says_so(
    hostile: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    plotting_library.cache_clear()
    told = r"vl_convert is not installed: pip install 'rescorer\[report\]'"
    with pytest.raises(MissingExtraError, match=told), extra_named("report"):
        write_report(hostile.inputs(), tmp_path / "report.html")


def test_of_a_system_the_run_nearest_to_its_mean_is_shown(
    maker: type[Maker], tmp_path: Path
) -> None:
    made = maker.experiment(tmp_path, ["A"], 3, 3, False)
    value = json.loads(made.table.read_text())
    value["rows"][0]["test_bleu"] = 30.0
    for run, score in zip(value["rows"][0]["runs"], (10.0, 31.0, 49.0), strict=True):
        run["test_bleu"] = score
    made.table.write_text(json.dumps(value))
    for run in (made.runs[0], made.runs[2]):
        output_path(run, made.source).unlink()
    contents = gather(made.inputs())
    assert contents.text is not None
    assert contents.subtitle.startswith("3 tuning runs of 1 system, 3 test sentences. rescorer ")
    details = [table for section in contents.sections for table in section.details]
    (shown,) = (table for table in details if table.caption == "Tuning runs")
    place = shown.columns.index("test BLEU")
    assert [row[place].text for row in shown.rows] == ["10.00", "31.00", "49.00"]
    alone = gather(ReportInputs(runs=made.runs[:1]))
    assert alone.text is None and alone.subtitle.startswith("1 tuning run. rescorer ")
    output_path(made.runs[1], made.source).unlink()
    with pytest.raises(ConfigError, match="no run has a translation of"):
        gather(made.inputs())
