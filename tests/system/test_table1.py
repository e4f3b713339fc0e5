"""The whole chain of `make table1` at its smallest scale, on a text that the test makes itself."""

from __future__ import annotations

import gzip
import json
import random
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.formats.moses_ini import read_ini
from tuning.cli import main

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    "Baseline",
    "+RNN",
    "+RNN for BLEU",
    "+CSLM+RNN+WP",
    "+NNJM",
    "+CSLM+NNJM+RNN for BLEU",
    "control: random columns",
]
# All other rows are made of what these have.
OTHERS = ("cslm", "cslm-rnn", "cslm-nnjm")
LEFT_OUT = "".join(f"[systems.{name}]\ntables = []\n" for name in OTHERS)
FEW_LISTS = "[folds]\nn_folds = 2\n[home-rnn]\nn_held_out = 50\n"
FEW_ITERATIONS = "[start]\nmax_iterations = 2\n[tune]\nmax_iterations = 2\n"
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
    given = [f"VENV={Path(sys.prefix)}", f"CORPUS={corpus}", f"BUILD={build}", "INSTALL="]
    seeds = ["SCALE=tiny", "SEEDS=1 2", "NOISE=1 2"]
    return subprocess.run(
        ["make", goal, *seeds, *given, "--no-print-directory", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def run_domain(
    corpus: Path, build: Path, *arguments: str, goal: str
) -> subprocess.CompletedProcess[str]:
    """A file of `make domain`, once text and tables of the default build are made, as by the Makefile."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    bin, default = Path(sys.prefix) / "bin", build / "table1-tiny"
    run = [f"{bin}/tuning", "run", "tuning/experiments/tiny.toml", "--scale", "tiny"]
    run += ["--set", "seeds.runs = [1]"]
    if "--dry-run" not in arguments:
        first = ["--corpus", str(corpus), "--out", str(default), "--goal", "model/moses.ini"]
        subprocess.run([*run, *first], cwd=ROOT, check=True)
    variables = {
        "B": default, "BIN": bin, "BUILD": build, "CORPUS": corpus, "MODEL": default / "model",
        "RUN": shlex.join(run), "SOURCE": "en", "TARGET": "fr", "SEEDS": 1,
    }  # fmt: skip
    given = [f"{name}={value}" for name, value in variables.items()]
    return subprocess.run(
        ["make", "-f", "tuning/experiments/domain/domain.mk", goal, *given, *arguments],
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
@pytest.mark.timeout(3600)  # 18 tunings: three minutes, more on a machine with other work
def test_from_corpus_to_table(corpus: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.toml"
    few.write_text(LEFT_OUT + FEW_LISTS + FEW_ITERATIONS)
    experiment = f"EXPERIMENT=tuning/experiments/tiny.toml {few}"
    first = run_make(corpus, tmp_path, experiment)
    assert first.returncode == 0, first.stdout + first.stderr
    table = json.loads((tmp_path / "table1-tiny" / "table.json").read_text())
    assert [row["system"] for row in table["rows"]] == ROWS
    baseline, *others = table["rows"]
    for row in table["rows"]:
        assert row["n_runs"] == 2
        assert 30 < row["test_bleu"] <= 100
        of_two = row["system"].startswith("control") or row["system"].endswith("RNN for BLEU")
        assert row["n_networks"] == (2 if of_two else 1)
    for row in others:
        contrast = row["against_baseline"]
        assert contrast["delta"] == pytest.approx(row["test_bleu"] - baseline["test_bleu"])
        assert contrast["interval"][0] <= contrast["delta"] <= contrast["interval"][1]
        assert contrast["covers_runs"]
    of_one_seed = run_make(corpus, tmp_path, experiment, "SEEDS=1", goal="controls")
    assert of_one_seed.returncode == 0, of_one_seed.stderr
    controls = json.loads((tmp_path / "table1-tiny" / "controls" / "table.json").read_text())
    without, back = controls["rows"]
    for run in without["runs"]:
        assert not any(decoded_weights(run["directory"]))
    for run in back["runs"]:
        assert any(decoded_weights(run["directory"]))
    assert "Baseline" in first.stdout
    assert "all steps, one after the other" in first.stdout
    report = tmp_path / "table1-tiny" / "report.html"
    assert first.stdout.rstrip().endswith(str(report))
    page = report.read_text()
    assert all(f'<td class="words">{row}</td>' in page for row in ("encdec", "cslm", "nnjm"))
    assert "runs/cslm-nnjm-home-rnn-2/weights.json" in page
    assert all(f"<strong>Source {kind}</strong>" in page for kind in ("words", "phrases"))
    steps = (tmp_path / "table1-tiny" / "steps.jsonl").read_text()
    again = run_make(corpus, tmp_path, experiment)
    assert again.returncode == 0
    assert (tmp_path / "table1-tiny" / "steps.jsonl").read_text() == steps


def test_the_makefile_calls_one_command(corpus: Path, tmp_path: Path) -> None:
    """What would be run, with the variables of the command line as options."""
    texts = [corpus / "dev.en", corpus / "test.en"]
    given = ["KNOWN=A_0 B_0", "AT_ONCE=2", "JOBS=6", f"INPUTS={texts[0]} {texts[1]}"]
    given += ["SOURCE=de", "TARGET=en", "MODEL=m"]
    told = run_make(corpus, tmp_path, "--dry-run", *given, goal="networks")
    assert told.returncode == 0, told.stderr
    (line,) = told.stdout.splitlines()
    words = shlex.split(line)
    assert words[0].endswith("/bin/tuning")
    result = CliRunner().invoke(main, [*words[1:], "--help"])
    assert result.exit_code == 0
    context = main.all_commands()["run"].make_context("run", words[2:])
    assert context.params["experiment"] == (
        "tuning/experiments/tiny.toml",
        "tuning/experiments/networks.toml",
    )
    assert context.params["out"] == tmp_path / "networks" / "table1-tiny-de-en"
    assert (context.params["jobs"], context.params["at_once"]) == (6, 2)
    assert context.params["languages"] == ("de", "en")
    assert context.params["inputs"] == (*texts,)
    assert context.params["changes"] == (
        "seeds.runs = [1,2]",
        "seeds.noise = [1,2]",
        'starts.known-start.leave_out = ["A_0","B_0"]',
    )
    assert context.params["goals"] == ("networks/table.json",)


def test_the_makefile_is_short() -> None:
    """The rules of experiments are in the package."""
    assert len((ROOT / "Makefile").read_text().splitlines()) <= 130
    assert not [*(ROOT / "tests").rglob("*.mk")]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts of another domain; what one test makes there, the next one does not make again."""
    build = tmp_path_factory.mktemp("build")
    texts_of_another_domain(build / "domain" / "libreoffice")
    return build


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
    for name in ("config/build.toml", "model/moses.ini"):
        (tmp_path / "table1-tiny" / name).parent.mkdir(parents=True)
        (tmp_path / "table1-tiny" / name).touch()
    told = run_domain(corpus, tmp_path, "--dry-run", "ORIGIN=mine", "SIZE=40", goal=goal)
    assert told.returncode == 0, told.stderr
    assert f"cp {folder}/dev.* {folder}/test.* {tmp_path}/domain/mine-40/corpus\n" in told.stdout
    assert "moses-bridge corpus" not in told.stdout


@pytest.mark.slow
def test_a_text_of_another_domain_joins_in_several_ways(corpus: Path, build: Path) -> None:
    """The models of the ways that no other test makes, one of them tuned."""
    made = build / "domain" / "libreoffice-40"
    goals = [str(made / name) for name in ("two-models.translated", "mixture/model/moses.ini")]
    told = run_domain(corpus, build, "SIZE=40", *goals, goal=str(made / "fill-up/model/moses.ini"))
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
        str(build / "table1-tiny/model/phrase-table.gz"),
    ]
    (output,) = (made / "two-models/table1-tiny/runs/baseline-1").glob("test-*.out")
    assert all(line.startswith("new ") for line in output.read_text().splitlines())


@pytest.mark.slow
def test_lists_of_a_text_are_made_by_systems_that_have_not_seen_its_documents(
    corpus: Path, build: Path
) -> None:
    """Of two documents, so in two folds."""
    made = build / "domain" / "libreoffice-40"
    arguments = ("SIZE=40", "BEST=fill-up")
    told = run_domain(corpus, build, *arguments, goal=str(made / "folds/fill-up.gz"))
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


def test_missing_corpus_is_one_clear_error(tmp_path: Path) -> None:
    broken = run_make(tmp_path / "nowhere", tmp_path / "build")
    assert broken.returncode != 0
    assert f"found no {tmp_path}/nowhere/train.en" in broken.stderr
    assert not (tmp_path / "build" / "table1-tiny" / "table.json").exists()
