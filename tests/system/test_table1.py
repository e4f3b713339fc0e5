"""The whole chain of `make table1` at its smallest scale, on a text that the test makes itself."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moses_bridge.formats.moses_ini import read_ini

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    "Baseline",
    "+RNN",
    "+CSLM+RNN+WP",
    "+NNJM",
    "+CSLM+NNJM+RNN",
    "control: random columns",
]
# All other rows are made of what these have.
LEFT_OUT = "".join(f"[systems.{name}]\ntables = []\n" for name in ("cslm", "cslm-rnn", "cslm-nnjm"))
PARTS = {"train": 600, "dev": 30, "test": 30}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two made-up languages: words translate one to one or to one of two, adjectives move."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(1)
    for part, n_sentences in PARTS.items():
        pairs = [_sentence_pair(rng) for _ in range(n_sentences)]
        (folder / f"{part}.en").write_text("".join(f"{source}\n" for source, _ in pairs))
        (folder / f"{part}.fr").write_text("".join(f"{target}\n" for _, target in pairs))
    return folder


def _sentence_pair(rng: random.Random) -> tuple[str, str]:
    source, target = [], []
    for _ in range(rng.randint(1, 4)):
        noun = rng.randrange(60)
        if rng.random() < 0.5:
            adjective = rng.randrange(20)
            source += [f"adj{adjective}", f"noun{noun}"]
            target += [f"nom{noun}", f"épithète{adjective}"]
        else:
            source.append(f"noun{noun}")
            target.append(f"nom{noun}" if rng.random() < 0.8 else f"chose{noun}")
    return " ".join([*source, "."]), " ".join([*target, "."])


def run_make(
    corpus: Path, build: Path, *arguments: str, goal: str = "table1"
) -> subprocess.CompletedProcess[str]:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    return subprocess.run(
        [
            "make",
            goal,
            "SCALE=tiny",
            "SEEDS=1 2",
            "NOISE=1 2",
            f"VENV={Path(sys.prefix)}",
            f"CORPUS={corpus}",
            f"BUILD={build}",
            "INSTALL=",
            "--no-print-directory",
            *arguments,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def decoded_weights(run: str) -> list[float]:
    """What the control's columns had in any decoding of a run, kept or not."""
    stored = json.loads((ROOT / run / "weights.json").read_text())
    decoded = [iteration["weights"]["TranslationModel0"] for iteration in stored["iterations"]]
    return [weight for weights in decoded for weight in weights[:2]]


@pytest.mark.slow
@pytest.mark.timeout(1800)  # 18 tunings: three minutes, more on a machine with other work
def test_from_corpus_to_table(corpus: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.toml"
    few.write_text(LEFT_OUT)
    experiment = f"EXPERIMENT=tuning/experiments/tiny.toml {few}"
    first = run_make(corpus, tmp_path, experiment)
    assert first.returncode == 0, first.stdout + first.stderr
    table = json.loads((tmp_path / "table1-tiny" / "table.json").read_text())
    assert [row["system"] for row in table["rows"]] == ROWS
    baseline, *others = table["rows"]
    for row in table["rows"]:
        assert row["n_runs"] == 2
        assert 30 < row["test_bleu"] <= 100
        assert row["n_networks"] == (2 if row["system"].startswith("control") else 1)
    for row in others:
        contrast = row["against_baseline"]
        assert contrast["delta"] == pytest.approx(row["test_bleu"] - baseline["test_bleu"])
        assert contrast["interval"][0] <= contrast["delta"] <= contrast["interval"][1]
        assert contrast["covers_runs"]
    controls = json.loads((tmp_path / "table1-tiny" / "controls" / "table.json").read_text())
    without, back = controls["rows"]
    for run in without["runs"]:
        assert not any(decoded_weights(run["directory"]))
    for run in back["runs"]:
        assert any(decoded_weights(run["directory"]))
    assert "left out and added back" in first.stdout
    assert "Baseline" in first.stdout
    assert "all steps, one after the other" in first.stdout
    report = tmp_path / "table1-tiny" / "report.html"
    assert first.stdout.rstrip().endswith(str(report))
    page = report.read_text()
    assert all(f'<td class="words">{row}</td>' in page for row in ("encdec", "cslm", "nnjm"))
    assert "runs/cslm-nnjm-rnn-2/weights.json" in page
    assert all(f"<strong>Source {kind}</strong>" in page for kind in ("words", "phrases"))
    again = run_make(corpus, tmp_path, experiment)
    assert again.returncode == 0
    assert "tuning tune" not in again.stdout


def test_the_full_scale_reranks_lists_of_tuned_runs(corpus: Path, tmp_path: Path) -> None:
    """What would be run: networks choose from the lists of runs, and a control without any."""
    told = run_make(corpus, tmp_path, "SCALE=full", "--dry-run")
    assert told.returncode == 0, told.stderr
    lines = [
        line for line in told.stdout.split("\n") if " tuning rerank " in line.replace("bin/", " ")
    ]
    n_models = [line.count(" --model ") for line in lines if "/runs/cslm-nnjm-1 " in line]
    assert sorted(n_models) == [0, 1, 1, 2]
    assert len(lines) == 2 * (3 + 4)
    (train,) = (line for line in told.stdout.split("\n") if "--arch rnnsearch" in line)
    assert "--seed 1 " in train
    (table,) = (part for part in told.stdout.split("tuning compare ") if "/reranking " in part)
    assert "'RNNsearch+RNN LM=" in table and "--control reranked" in table


def texts_of_another_domain(folder: Path) -> None:
    """What `moses-bridge corpus` would fetch: the same languages, each sentence behind a word of its own."""
    folder.mkdir(parents=True)
    rng = random.Random(2)
    for part, n_sentences in {"train-40": 40, "dev": 20, "test": 20}.items():
        pairs = [_sentence_pair(rng) for _ in range(n_sentences)]
        for language, side in zip(("en", "fr"), zip(*pairs, strict=True), strict=True):
            text = "".join(f"new {line}\n" for line in side)
            (folder / f"{part}.{language}").write_text(text)
        documents = (f"document {number // 20}\n" for number in range(n_sentences))
        (folder / f"{part}.groups").write_text("".join(documents))


def test_a_text_of_ones_own_is_a_domain_without_settings(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "domain" / "mine"
    texts_of_another_domain(folder)
    goal = str(tmp_path / "domain/mine-40/links/dev")
    told = run_make(corpus, tmp_path, "--dry-run", "ORIGIN=mine", "SIZE=40", goal=goal)
    assert told.returncode == 0, told.stderr
    assert f"cp {folder}/dev.* {folder}/test.* {tmp_path}/domain/mine-40/corpus\n" in told.stdout
    assert "moses-bridge corpus" not in told.stdout


@pytest.mark.slow
def test_a_text_of_another_domain_joins_in_several_ways(corpus: Path, tmp_path: Path) -> None:
    """The models of the ways that no other test makes, one of them tuned."""
    made = tmp_path / "domain" / "libreoffice-40"
    texts_of_another_domain(made.with_name("libreoffice"))
    goals = [str(made / name) for name in ("two-models.translated", "mixture/model/moses.ini")]
    told = run_make(
        corpus, tmp_path, "SIZE=40", "SEEDS=1", *goals, goal=str(made / "fill-up/model/moses.ini")
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert (made / "times-5" / "model").exists() is False
    filled, mixed, both = (
        read_ini(made / f"{way}/model/moses.ini") for way in ("fill-up", "mixture", "two-models")
    )
    assert filled.feature("TranslationModel0").n_scores == 5
    assert filled.weights["TranslationModel0"] == (0.2,) * 5
    with gzip.open(made / "fill-up/model/phrase-table.gz", "rb") as rows:
        assert {len(row.split(b" ||| ")[2].split()) for row in rows} == {5}
    assert mixed.feature("LM0").arguments["path"] == filled.feature("LM0").arguments["path"]
    assert mixed.feature("TranslationModel0").n_scores == 4
    tables = [feature.arguments["path"] for feature in both.of_kind("PhraseDictionaryMemory")]
    assert tables == [
        str(made / "two-models/model/phrase-table.gz"),
        str(tmp_path / "table1-tiny/model/phrase-table.gz"),
    ]
    (output,) = (made / "two-models/table1-tiny/runs/baseline-1").glob("test-*.out")
    assert all(line.startswith("new ") for line in output.read_text().splitlines())


@pytest.mark.slow
def test_lists_of_a_text_are_made_by_systems_that_have_not_seen_its_documents(
    corpus: Path, tmp_path: Path
) -> None:
    """Of two documents, so in two folds."""
    made = tmp_path / "domain" / "libreoffice-40"
    texts_of_another_domain(made.with_name("libreoffice"))
    arguments = ("SIZE=40", "SEEDS=1", "BEST=fill-up")
    told = run_make(corpus, tmp_path, *arguments, goal=str(made / "folds/fill-up.gz"))
    assert told.returncode == 0, told.stdout + told.stderr
    with gzip.open(made / "folds/fill-up.gz", "rb") as lists:
        assert {int(entry.split(b" ||| ")[0]) for entry in lists} == set(range(40))
    documents = (made / "corpus/train.groups").read_text().splitlines()
    folds = (made / "folds/folds").read_text().splitlines()
    assert len(set(zip(documents, folds, strict=True))) == len(set(documents))
    source = (made / "corpus/train.en").read_text().splitlines()
    for fold in "12":
        rest = [line for line, its in zip(source, folds, strict=True) if its != fold]
        assert (made / f"folds/{fold}/corpus/train.en").read_text().splitlines() == rest
        ini = read_ini(made / f"folds/{fold}/fill-up/model/moses.ini")
        table = ini.feature("TranslationModel0").arguments["path"]
        assert table == str(made / f"folds/{fold}/fill-up/model/phrase-table.gz")


def test_what_needs_no_plan_makes_none(tmp_path: Path) -> None:
    for goal in ("help", "clean", "install", "check"):
        told = run_make(tmp_path, tmp_path / "build", "--dry-run", goal=goal)
        assert told.returncode == 0, told.stderr
    assert not (tmp_path / "build").exists()


def test_other_seeds_make_another_plan(corpus: Path, tmp_path: Path) -> None:
    for seeds in (["1", "2"], ["4"], ["1", "2"]):
        told = run_make(corpus, tmp_path, "--dry-run", f"SEEDS={' '.join(seeds)}")
        assert told.returncode == 0, told.stderr
        assert set(re.findall(r"--out \S+/runs/nnjm-(\d+) ", told.stdout)) == set(seeds)


def test_a_system_of_a_file_of_ones_own_is_tuned(corpus: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[systems.mine]\nlabel = "mine"\nsearch = ["nnjm"]\n')
    experiment = f"EXPERIMENT=tuning/experiments/tiny.toml {mine}"
    told = run_make(corpus, tmp_path, "--dry-run", experiment)
    assert told.returncode == 0, told.stderr
    assert len(set(re.findall(r"--out \S+/runs/mine-(\d+) ", told.stdout))) == 2
    mine.write_text('[systems.mine]\nlabel = "mine"\nsearch = ["njm"]\n')
    broken = run_make(corpus, tmp_path, "--dry-run", experiment)
    assert broken.returncode != 0
    assert "systems: mine: unknown feature 'njm'; did you mean 'nnjm'?" in broken.stderr


def test_missing_corpus_is_one_clear_error(tmp_path: Path) -> None:
    broken = run_make(tmp_path / "nowhere", tmp_path / "build")
    assert broken.returncode != 0
    assert "nowhere" in broken.stderr
    assert not (tmp_path / "build" / "table1-tiny" / "table.json").exists()
