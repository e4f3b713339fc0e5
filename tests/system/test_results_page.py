"""Figures on README.md and the pages are those of docs/results, which are those of a build."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
README = ROOT / "README.md"
MADE = {
    "command": "tuning compare A=a B=b",
    "commit": "1234567",
    "changed": False,
    "version": "0.1.0",
    "date": "2026-11-23",
    "processor": "a processor",
    "n_processors": 2,
    "inputs": {"test.en": "00ff"},
}
CONTRAST = {
    "delta": 1.23456789,
    "interval": [1.0, 1.5],
    "p_value": 1e-9,
    "corrected_p_value": 2e-9,
    "smallest_found": 0.3,
    "covers_runs": True,
}


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "make_results.py"))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy of docs/results that a test may change."""
    return Path(shutil.copytree(RESULTS, tmp_path / "results"))


def row(system: str, gain: dict[str, Any] | None) -> dict[str, Any]:
    run = {"directory": "/home/someone/runs/1", "dev_bleu": 41.0, "test_bleu": 40.5, "end": "x"}
    return {
        "system": system,
        "test_bleu": 40.123456789,
        "test_sd": None,
        "dev_bleu": 41.0,
        "dev_sd": None,
        "chrf": 60.0,
        "ter": 50.0,
        "length_ratio": 1.0,
        "against_baseline": gain,
        "against_control": None,
        "n_runs": 1,
        "n_networks": 1,
        "weights": {"LM0": [0.5]},
        "runs": [run],
    }


def table(made: dict[str, Any] | None = MADE) -> str:
    rows = [row("Baseline", None), row("+RNN", CONTRAST)]
    value = {"made": made, "rows": rows, "signature": "BLEU", "n_sentences": 7, "control": ""}
    return json.dumps(value)


def with_files(build: Path, **files: str) -> Path:
    for name, text in files.items():
        path = build / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return build


def test_the_pages_have_the_figures_of_the_results(script: dict[str, Any]) -> None:
    for page in script["PAGES"]:
        text = page.read_text()
        assert "<!-- results: " in text, page
        assert script["rendered"](page, text) == text, f"{page}: run `make results`"


def test_a_changed_result_is_found(script: dict[str, Any], results: Path) -> None:
    path = results / "table1.json"
    value = json.loads(path.read_text())
    value["rows"][0]["test_bleu"] += 1.0
    path.write_text(json.dumps(value))
    text = README.read_text()
    changed = script["rendered"](README, text, results)
    differing = [
        (old, new)
        for old, new in zip(text.split("\n"), changed.split("\n"), strict=True)
        if old != new
    ]
    before = value["rows"][0]["test_bleu"] - 1.0
    ((old, new),) = differing
    assert old.replace(f"{before:.2f}", f"{before + 1.0:.2f}") == new


def test_a_changed_page_is_found(script: dict[str, Any]) -> None:
    text = README.read_text()
    line = next(line for line in text.splitlines() if line.startswith("| +NNJM |"))
    edited = text.replace(line, line.replace("4", "5"))
    assert edited != text
    assert script["rendered"](README, edited) == text


def test_the_readme_has_a_short_table(script: dict[str, Any]) -> None:
    (block,) = script["BLOCK"].findall(README.read_text())
    rows = [line for line in block[1].splitlines() if line.startswith("|")]
    assert 3 <= len(rows) <= 2 + 10


def test_the_columns_gain_pooled_over_eleven_experiments(
    script: dict[str, Any], results: Path
) -> None:
    """The figures of 22 November 2026, whose mean and Q another program had found."""
    for name in ("table1", "full", "german"):
        path = results / f"{name}.json"
        value = json.loads(path.read_text())
        (rnn,) = (row for row in value["rows"] if row["system"] == "+RNN")
        delta, low, high = {
            "table1": (0.08, -0.09, 0.25),
            "full": (-0.03, -0.12, 0.06),
            "german": (-0.03, -0.17, 0.11),
        }[name]
        rnn["against_baseline"] = {"delta": delta, "interval": [low, high]}
        path.write_text(json.dumps(value))
    regimes = {
        "5000-pairs": (0.06, -0.08, 0.20),
        "20000-pairs": (-0.16, -0.44, 0.13),
        "mismatched-40": (0.06, -0.14, 0.26),
        "mismatched-20": (0.07, -0.09, 0.24),
        "other-domain": (0.05, -0.09, 0.19),
        "no-smoothing": (0.28, 0.01, 0.55),
        "mixed-domains": (-0.06, -0.23, 0.11),
        "all-pairs": (0.06, -0.14, 0.27),
    }
    for path in [*results.glob("regime-*.json"), *results.glob("paper*.json")]:
        path.unlink()
    for name, (delta, low, high) in regimes.items():
        gain = {"delta": delta, "interval": [low, high]}
        rows = [{"system": "+RNN", "against_baseline": gain}]
        (results / f"regime-{name}.json").write_text(json.dumps({"rows": rows}))
    pooled = script["pooled_column"](results)
    assert pooled.n_experiments == 11
    assert [round(x, 2) for x in (pooled.mean, *pooled.interval)] == [0.02, -0.03, 0.07]
    assert round(pooled.q, 1) == 9.2
    shutil.copy(results / "table1.json", results / "regime-60000-pairs.json")
    assert script["pooled_column"](results) == pooled


def test_pooled_figures_are_those_of_the_package(script: dict[str, Any]) -> None:
    """Errors with few degrees of freedom, as tables have them, and not from their intervals."""
    gains = [
        {"delta": 0.3, "standard_error": 0.1, "degrees_of_freedom": 8.0, "interval": [0.0, 0.9]},
        {"delta": 0.4, "standard_error": 0.2, "degrees_of_freedom": 4.0, "interval": [0.0, 0.9]},
    ]
    pooled = script["_pool"](gains)
    # By hand: (4 * 0.3 + 0.4) / 5; s.e. sqrt(1.24 / 125), and 2.1983 is the 97.5% point of t with 11.1.
    assert pooled.mean == pytest.approx(0.32)
    assert pooled.interval[1] == pytest.approx(0.32 + 2.1983 * (1.24 / 125) ** 0.5, abs=1e-4)


def test_results_name_no_places_of_a_machine() -> None:
    for path in RESULTS.glob("*.json"):
        assert not re.search(r"(?:^|[\s\"=,])(?:/|~/)\w", path.read_text()), path


def test_a_build_is_taken_in_a_reduced_form(script: dict[str, Any], tmp_path: Path) -> None:
    files = {
        "table1__table": table(),
        "table1__controls__table": table(),
        "domain__manpages-1000__columns__table": table(),
        "domain__manpages-1000__nnjm__table": table(),
        "domain__manpages-1000__ways__table": table(),
        "bench__scoring": json.dumps({"made": MADE, "results": [{"ratio": None}]}),
        "table1-tiny__table": "no result of a smoke run is kept",
    }
    build = with_files(tmp_path / "build", **files)
    taken = script["take"](build, tmp_path)
    assert taken == [
        "table1",
        "controls",
        "ways-manpages-1000",
        "domain-manpages-1000",
        "nnjm-manpages-1000",
        "bench-scoring",
    ]
    found = json.loads((tmp_path / "table1.json").read_text())
    assert found["made"] == MADE
    assert found["rows"][1]["test_bleu"] == 40.1235
    assert found["rows"][1]["against_baseline"]["delta"] == 1.23457
    assert found["rows"][1]["runs"] == [{"dev_bleu": 41.0, "test_bleu": 40.5}]
    assert "weights" not in found["rows"][1]
    assert "someone" not in (tmp_path / "table1.json").read_text()
    bench = json.loads((tmp_path / "bench-scoring.json").read_text())
    assert bench == {"made": MADE, "results": [{"ratio": None}]}


def test_what_is_taken_is_shown(script: dict[str, Any], results: Path, tmp_path: Path) -> None:
    script["take"](with_files(tmp_path / "build", table1__table=table()), results)
    text = "<!-- results: table1 -->\n<!-- end -->\n"
    assert script["rendered"](README, text, results).splitlines()[2:] == [
        "| system | test BLEU | gain (95%) | p, Holm |",
        "| --- | --- | --- | --- |",
        "| Baseline | 40.12 |  |  |",
        "| +RNN | 40.12 | +1.23 (+1.00..+1.50) | <0.0001 |",
        "",
        "23 November 2026, commit 1234567, 2 × a processor. 7 test sentences.",
        "",
        "<!-- end -->",
    ]


def test_sentences_far_from_the_training_text_have_a_column_of_their_own(
    script: dict[str, Any], results: Path, tmp_path: Path
) -> None:
    of_all = json.loads(table())
    found = of_all | {"n_far": 5, "near_copies": {"0.5": 2 / 7, "0.7": 0.0, "0.8": 0.0}}
    for each in found["rows"]:
        each["far"] = {
            key: each[key] for key in ("test_sd", "against_baseline", "against_control")
        } | {"test_bleu": 33.333, "precisions": [60.0, 40.0, 30.0, 20.0]}
    found["rows"][1]["far"]["against_baseline"] = CONTRAST | {"delta": 2.345678}
    files = with_files(tmp_path / "build", table1__table=json.dumps(found))
    script["take"](files, results)
    text = "<!-- results: table1 -->\n<!-- end -->\n"
    assert script["rendered"](README, text, results).splitlines()[2:7] == [
        "| system | test BLEU | gain (95%) | p, Holm | far: gain (95%) |",
        "| --- | --- | --- | --- | --- |",
        "| Baseline | 40.12 |  |  |  |",
        "| +RNN | 40.12 | +1.23 (+1.00..+1.50) | <0.0001 | +2.35 (+1.00..+1.50) |",
        "",
    ]
    assert json.loads((results / "table1.json").read_text())["near_copies"]["0.5"] == 0.285714


def test_the_short_table_has_the_baseline_and_few_systems(script: dict[str, Any]) -> None:
    text = script["rendered"](README, "<!-- results: table1-short -->\n<!-- end -->\n")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("|")]
    assert rows[2:] == [
        "| Baseline",
        "| +RNN",
        "| +RNN for BLEU",
        "| +CSLM",
        "| +NNJM",
        "| +CSLM+NNJM",
    ]


def test_costs_are_computed_from_measured_rates(
    script: dict[str, Any], results: Path, tmp_path: Path
) -> None:
    """By hand: 90,000 pairs twice at 100 a second are half an hour, 1,000,000 rows at 50 a second 5.6 h."""

    def bench(
        work: str, value: float | list[float], unit: str, ours: str = "tries, float32"
    ) -> dict[str, Any]:
        return {"work": work, "ours": ours, "ours_value": value, "unit": unit}

    measured = [{"rows": 10**n, "pairs": 90_000, "seconds": 75, "mib": 1500} for n in (6, 7, 8)]
    files = {
        "long-tables": measured,
        "bench-training": [
            bench("train on phrase pairs, d=256", 50, "pairs/s"),
            bench("train on phrase pairs, d=256", [100, 120], "pairs/s", "tries, bfloat16"),
            bench("train on phrase pairs, d=1000", 10, "pairs/s", "tries, bfloat16"),
        ],
        "bench-scoring": [
            bench("score phrase pairs, d=192, V=6973", 50, "rows/s"),
            bench("score phrase pairs, d=1000, V=6973", 5, "rows/s"),
        ],
    }
    for name, value in files.items():
        (results / f"{name}.json").write_text(json.dumps({"results": value}))
    text = "<!-- results: costs -->\n<!-- end -->\n"
    rows = script["rendered"](README, text, results).splitlines()
    assert rows[4] == "| 1,000,000 | 1.2 min | 1,500 MiB | 30 min | 5 h | 5.6 h | 56 h |"
    (results / "bench-scoring.json").write_text('{"results": []}')
    with pytest.raises(InputError, match="no rate of 'score phrase pairs, d=192"):
        script["rendered"](README, text, results)


def test_the_picture_has_the_gains_of_the_results(script: dict[str, Any], results: Path) -> None:
    assert script["PICTURE"].read_text() == script["gains_picture"](), "run `make results`"
    table = json.loads((results / "table1.json").read_text())
    for each, (delta, interval) in zip(
        (row for row in table["rows"] if row["system"] in script["SHORT"]),
        [(0.0, [-1.0, 1.0])] + 4 * [(1.0, [0.5, 2.0])],
        strict=True,
    ):
        each["against_baseline"] |= {"delta": delta, "interval": interval}
        each["far"] = None
    (results / "table1.json").write_text(json.dumps(table))
    picture = script["gains_picture"](results)
    # From -1 at 170 to 2 at 530: 120 pixels a BLEU, 0 at 290.
    assert re.findall(r'cx="([\d.]+)"', picture) == ["290.0"] + 4 * ["410.0"]
    assert 'd="M170.0 75H410.0"' in picture
    assert "far from" not in picture


def test_the_picture_of_foretold_gains_has_a_point_for_each_score(
    script: dict[str, Any], results: Path
) -> None:
    """By hand: gains -1 and +1 with s.d. 0 have the mean 0 and the interval ±1.96; another table's row."""
    assert script["FORETOLD"].read_text() == script["foretold_picture"](), "run `make results`"
    networks = [{"gain": gain, "gain_sd": 0.0} for gain in (-1.0, 1.0)]
    judged = {"score": "A, twice", "system": "+RNN", "networks": networks}
    other = {"score": "B", "system": "+B", "table": "home", "networks": [{"gain": 1, "gain_sd": 0}]}
    (results / "worth.json").write_text(json.dumps({"rows": [judged, other]}))
    for name, system, delta in (("table1", "+RNN", 0.0), ("home", "+B", 1.96)):
        gain = {"delta": delta, "interval": [delta - 1, delta]}
        rows = [{"system": system, "against_baseline": gain}]
        (results / f"{name}.json").write_text(json.dumps({"rows": rows}))
    picture = script["foretold_picture"](results)
    # From -1.96 to 1.96 are 320 pixels, to the right from 56 and upwards from 378.
    points = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', picture)
    assert points == [("297.6", "58.0"), ("216.0", "218.0")]
    assert 'd="M56.0 218.0H376.0"' in picture and 'd="M216.0 299.6V218.0"' in picture
    assert re.findall(r">([AB][^<]*)<", picture) == [
        "BLEU gained on the test text, and foretold from lists of dev"
    ] * 2 + ["B", "A"]


def test_gains_of_domains_are_pooled_by_size(script: dict[str, Any], results: Path) -> None:
    """By hand: +1 and +3 with equal errors have the mean +2, and 0.71 of their half width."""
    for path in [*results.glob("domain-*-*.json"), *results.glob("nnjm-*-*.json")]:
        path.unlink()
    for kind in ("domain", "nnjm"):
        for size in script["POOLED_SIZES"]:
            for name, delta in (("a", 1.0), ("b", 3.0)):
                gain = {"delta": delta, "interval": [delta - 1, delta + 1]}
                rows = [{"system": "Baseline", "against_baseline": None}]
                rows += [{"system": f"+{kind}", "against_baseline": gain}]
                rows += [{"system": "+more", "against_baseline": gain}] * (name == "b")
                path = results / f"{kind}-{name}-{size}.json"
                path.write_text(json.dumps({"rows": rows}))
    text = "<!-- results: domains -->\n<!-- end -->\n"
    assert script["rendered"](README, text, results).splitlines()[2:-2] == [
        "| added | 250 pairs | 1,000 pairs | 4,000 pairs | 16,000 pairs |",
        "| --- | --- | --- | --- | --- |",
        f"| +domain{' | +2.00 (+1.29..+2.71)' * 4} |",
        f"| +nnjm{' | +2.00 (+1.29..+2.71)' * 4} |",
    ]


def test_the_fastest_peer_is_shown(script: dict[str, Any], results: Path) -> None:
    for path in results.glob("bench-*.json"):
        path.unlink()
    found = [
        ("train", "ours", "slow", 4.0),
        ("the same", "ours", "fast", [2.5, 2.0]),
        ("the same", "ours", "alone", 1.0),
        ("train on cuda", "ours", "slow", 3.0),
    ]
    each = {"ours_value": 5.0, "peer_value": 2.0, "unit": "rows/s"}
    rows = [dict(zip(("work", "ours", "peer", "ratio"), row, strict=True)) | each for row in found]
    (results / "bench-x.json").write_text(json.dumps({"results": rows}))
    text = "<!-- results: bench -->\n<!-- end -->\n"
    assert script["rendered"](README, text, results).splitlines()[4:-2] == [
        "| train | ours: 5 rows/s | fast: 2 | 2.5 to 2 |"
    ]


def test_nothing_is_taken_where_there_is_no_build(script: dict[str, Any], tmp_path: Path) -> None:
    assert script["take"](tmp_path / "nowhere", tmp_path) == []


@pytest.mark.parametrize("text", [table(made=None), '{"rows": []}', "[]", "no JSON"])
def test_a_table_that_does_not_say_how_it_was_made_is_refused(
    script: dict[str, Any], tmp_path: Path, text: str
) -> None:
    with pytest.raises(InputError, match=r"table1/table\.json: found"):
        script["take"](with_files(tmp_path, table1__table=text), tmp_path)
    assert not (tmp_path / "table1.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- results: nothing -->\n<!-- end -->\n", "results: nothing"),
        ("<!-- results: table1 -->\n| a |\n", "a table without its end"),
        (
            "<!-- results: table1 -->\n<!-- results: networks -->\n<!-- end -->\n",
            "a table without its end",
        ),
    ],
)
def test_a_table_that_cannot_be_made_is_refused(
    script: dict[str, Any], text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        script["rendered"](README, text)


def test_missing_results_are_named(script: dict[str, Any], results: Path) -> None:
    text = "<!-- results: gains-by-place -->\n<!-- end -->\n"
    (results / "full.json").unlink()
    with pytest.raises(InputError, match=r"full\.json"):
        script["rendered"](README, text, results)
    (results / "table1.json").write_text('{"rows": []}')
    with pytest.raises(InputError, match=r"no row \+NNJM"):
        script["rendered"](README, text, results)


def test_the_columns_gains_in_the_papers_setting_are_of_the_column_alone(
    script: dict[str, Any], results: Path
) -> None:
    """A table that has the column over a CSLM, too, has it alone first; what was not measured is empty."""
    rows = [{"system": "Baseline", "test_bleu": 30.0, "test_sd": 0.1, "against_baseline": None}]
    gains = {"+RNN": 1.0, "+CSLM": 5.0, "+CSLM+RNN": 6.0, "control: random columns": 0.0}
    for system, delta in gains.items():
        gain = {"delta": delta, "interval": [delta, delta], "corrected_p_value": 1.0}
        rows.append({"system": system, "against_baseline": gain})
    for name in script["PAPER_SETTINGS"]:
        (results / f"{name}.json").write_text(json.dumps({"rows": rows}))
    lines = script["TABLES"]["paper"](results).splitlines()
    assert lines[2] == (
        "| batch MIRA | 30.00 (0.10) | +1.00 (+1.00..+1.00) |  | +0.00 (+0.00..+0.00) |"
    )
