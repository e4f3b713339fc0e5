"""What an experiment file may say, and the one error for what it may not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from tuning.experiments.description import read_experiment

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENTS = ROOT / "tuning" / "experiments"
TINY = EXPERIMENTS / "tiny.toml"
SMALLEST = """\
[start]
[tune]
[compare]
[cslm]
[networks]
cslm = { arch = "cslm", data = "target text" }
[features]
cslm = { name = "CSLM0", networks = ["cslm"] }
[columns]
noise = { control = "random" }
[starts.start]
[systems.baseline]
label = "Baseline"
[systems.cslm]
label = "+CSLM"
search = ["cslm"]
[tables.main]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text)
    return path


def test_rows_are_those_of_the_table_then_those_that_name_it_then_the_control(
    tmp_path: Path,
) -> None:
    text = """\
[systems.noise]
label = "control"
columns = ["noise"]
tables = []
[systems.other]
label = "other"
tables = ["second"]
[systems.both]
label = "both"
tables = ["main", "second"]
[tables.second]
rows = ["cslm"]
control = "noise"
"""
    experiment = read_experiment([written(tmp_path, SMALLEST + text)])
    assert experiment.rows("main") == ["baseline", "cslm", "both"]
    assert experiment.rows("second") == ["cslm", "other", "both", "noise"]


def test_a_control_that_is_a_row_keeps_its_place() -> None:
    experiment = read_experiment([EXPERIMENTS / "full.toml"])
    assert experiment.rows("main").index("random") == 9
    assert experiment.rows("reranking")[:2] == ["cslm-nnjm", "cslm-nnjm-reranked"]


def test_a_label_has_what_is_left_out_and_loses_the_prefix_of_its_table() -> None:
    experiment = read_experiment(
        [EXPERIMENTS / "full.toml"], ['starts.known-start.leave_out = ["A", "B"]']
    )
    assert experiment.label("known-out", "controls") == "without A B"
    assert experiment.label("cslm-nnjm", "main") == "+CSLM+NNJM"
    assert experiment.label("cslm-nnjm-all", "reranking") == "RNNsearch+RNN LM"
    assert experiment.label("cslm-nnjm", "reranking") == "+CSLM+NNJM"


def test_a_change_replaces_a_key(tmp_path: Path) -> None:
    path = written(tmp_path, SMALLEST)
    changed = read_experiment([path], ["seeds.runs = [7]", 'systems.cslm.label = "other"'])
    assert changed.seeds.runs == (7,)
    assert changed.label("cslm", "main") == "other"
    assert read_experiment([path]).seeds.runs == (1, 2, 3)


def test_files_are_named_with_their_bases() -> None:
    experiment = read_experiment([TINY])
    assert [path.name for path in experiment.files] == [
        "systems.toml",
        "optimizers.toml",
        "home.toml",
        "tiny.toml",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[systems.x]\nlabel = "x"\nserch = ["cslm"]', "unknown key 'serch'; did you mean 'search'?"),
        ('[systems.x]\nlabel = "x"\nsearch = ["csml"]', "unknown feature 'csml'; did you mean 'cslm'?"),
        ('[systems.x]\nlabel = "x"\ncolumns = ["noisy"]', "unknown column 'noisy'; did you mean 'noise'?"),
        ('[systems.x]\nlabel = "x"\nstart = "stat"', "unknown start 'stat'; did you mean 'start'?"),
        ('[systems.x]\nlabel = "x"\nreranks = "cslms"', "unknown system 'cslms'; did you mean 'cslm'?"),
        ('[systems.x]\nlabel = "x"\nreranks = "cslm"', "unknown section 'rerank'; the sections are"),
        ('[systems.x]\nlabel = "x"\ntables = ["man"]', "unknown table 'man'; did you mean 'main'?"),
        ('[systems.x]\nlabel = "x"\nsettings = "tuen"', "unknown section 'tuen'; did you mean 'tune'?"),
        ('[systems.x]\nlabel = "x"\nseeds = "runes"', "one of runs, noise, optimizers"),
        ('[systems.x]\ncolumns = ["noise"]', "the key 'label' is missing"),
        ('[systems.x]\nlabel = "a=b"', "expected a text without '='"),
        ('[systems.x]\nlabel = "a\\nb"', "expected one line"),
        ('[systems.x]\nlabel = "+CSLM"', "'cslm' and 'x' have the same label '+CSLM'"),
        ('[systems."a b"]\nlabel = "x"', "systems: found 'a b', expected a name of letters"),
        ('[systems]\nx = 1', "systems: x: found 1, expected a table"),
        ('[systems.x]\nlabel = "x"\non_lists = ["cslm"]', "'on_lists' needs the key 'reranks'"),
        (
            '[rerank]\n[systems.x]\nlabel = "x"\nreranks = "cslm"\nsearch = ["cslm"]',
            "'reranks' takes the lists of a system as they are",
        ),
        (
            '[rerank]\n[systems.x]\nlabel = "x"\nreranks = "cslm"\n'
            '[systems.y]\nlabel = "y"\nreranks = "x"',
            "'x' has no lists of its own",
        ),
        ('[networks.x]\ndata = "target text"', "unknown section 'x'; the sections are"),
        ('[x]\n[networks.x]\ndata = "targets"', "one of table, table and texts, whole table and texts"),
        ("[x]\n[networks.x]\nseed = 2", "expected one of the keys 'data' and 'tuned_from'"),
        ('[networks]\nruns = { data = "table", settings = "cslm" }', "networks: runs: something else"),
        ('[networks]\nmain = { data = "table", settings = "cslm" }', "networks: main: something else"),
        (
            '[lists]\n[networks]\na = { tuned_from = "cslm", settings = "cslm" }\n'
            'b = { tuned_from = "a", settings = "cslm" }',
            "networks: b: 'a' begins with another network itself",
        ),
        (
            '[x]\n[networks.x]\narch = "nnjm"\ndata = "target text"\nstarted_from = "cslm"',
            "networks: x: arch is 'nnjm', expected 'cslm', that of 'cslm'",
        ),
        (
            '[x]\n[networks.x]\ntuned_from = "cslm"\nstarted_from = "cslm"',
            "networks: x: 'started_from' needs the key 'data'",
        ),
        ('[networks]\na = { tuned_from = "cslm", settings = "cslm" }', "unknown section 'lists'"),
        ('[columns]\nx = { network = "clsm" }', "unknown network 'clsm'; did you mean 'cslm'?"),
        ("[columns]\nx = { unknown_words = true }", "expected one of the keys 'network' and 'control'"),
        ('[features]\nx = { name = "A B", networks = ["cslm"] }', "found 'A B', expected a name"),
        ('[features]\nx = { name = "A", networks = [] }', "networks: found none"),
        (
            '[features]\nx = { name = "X0", networks = ["cslm", "cslm"] }\n'
            '[systems.x]\nlabel = "x"\nsearch = ["x"]',
            "'x' in the search is one network",
        ),
        ('[tables.other]\nrows = ["cslm"]\ncontrol = "basline"', "did you mean 'baseline'?"),
        ("[tables.other]\n", "tables: other: it has no rows"),
        ('[sytems.x]\nlabel = "x"', "unknown table 'sytems'; did you mean 'systems'?"),
        ("[seeds]\nruns = []", "seeds: runs: found [], expected distinct seeds"),
        ("[seeds]\nnoise = [1, 1]", "seeds: noise: found [1, 1], expected distinct seeds"),
        ('[page]\nmaps = "encdec"', "page: unknown network 'encdec'; the networks are cslm"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_error_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, SMALLEST)
    more = tmp_path / "more.toml"
    more.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        read_experiment([path, more])
    assert str(error.value).startswith(f"{path}, {more}: ")


def test_a_change_that_is_no_toml_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found 'seeds.runs = 1 2', expected TOML"):
        read_experiment([written(tmp_path, SMALLEST)], ["seeds.runs = 1 2"])


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        read_experiment([tmp_path / "nowhere.toml"])


def test_a_section_that_nothing_uses_is_none() -> None:
    """A scale may have settings of networks that only another scale trains."""
    assert "tune-best" in read_experiment([TINY]).sections
    assert "tune-best" not in read_experiment([TINY]).networks


def test_labels_of_the_readme_are_those_of_the_experiments() -> None:
    readme = (ROOT / "README.md").read_text()
    experiment = read_experiment([EXPERIMENTS / "small.toml"])
    labels = [experiment.label(system, "main") for system in experiment.rows("main")]
    first = re.findall(r"^\| ([^|]*[^|\s]) \|", readme.split("| system |")[1], re.MULTILINE)
    rows = [row for row in first if not set(row) <= set("-|")]
    assert rows == [label for label in labels if label in rows]
    assert len(rows) >= 5


def test_networks_of_the_makefile_are_those_of_the_experiment() -> None:
    """`make domain` names the networks that it trains before it has a plan with their columns."""
    makefile = (EXPERIMENTS / "domain" / "domain.mk").read_text()
    (named,) = re.findall(r"^DOMAIN_NETWORKS := (.+)$", makefile, re.MULTILINE)
    domain = read_experiment([EXPERIMENTS / "small.toml", EXPERIMENTS / "domain" / "lists.toml"])
    columns = [
        domain.columns[name]
        for row in domain.rows("domain")
        for name in domain.systems[row].columns
    ]
    assert {column.network for column in columns if column.control is None} == set(named.split())
