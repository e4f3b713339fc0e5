"""`tuning run improve` as a person types it, on a system of two made-up languages."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

from moses_bridge.formats.moses_ini import read_ini
from tuning.experiments.description import read_experiment
from tuning.experiments.improve import EXPERIMENT, Choice, install
from tuning.experiments.settings import LINKS_NAMES, ImproveSettings

EXPERIMENTS = Path(__file__).resolve().parents[2] / "tuning" / "experiments"
COMMANDS = Path(sysconfig.get_path("scripts"))
PARTS = {"train": 600, "dev": 30, "test": 30, "new": 5, "long": 200}
# Two tunings instead of three, of two iterations each.
FEWER = (
    "[seeds]\nruns = [1, 2]\nnoise = [1, 2]\n"
    "[start]\nmax_iterations = 2\n[tune]\nmax_iterations = 2\n"
)
ONE = "[seeds]\nruns = [1]\nnoise = [1]\n"
# A network that learns nothing, and ten passes for the other one.
UNLEARNED = "[cslm]\nloop = { learning_rate = 1e-12 }\n[nnjm]\nloop = { n_epochs = 10 }\n"


def _sentence_pair(rng: random.Random) -> tuple[str, str]:
    """Words translate one to one or to one of two, adjectives move."""
    source, target = [], []
    for _ in range(rng.randint(2, 5)):
        noun = rng.randrange(60)
        if rng.random() < 0.5:
            adjective = rng.randrange(20)
            source += [f"adj{adjective}", f"noun{noun}"]
            target += [f"nom{noun}", f"épithète{adjective}"]
        else:
            source.append(f"noun{noun}")
            target.append(f"nom{noun}" if rng.random() < 0.8 else f"chose{noun}")
    return " ".join([*source, "."]), " ".join([*target, "."])


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = words
    return subprocess.run(
        [COMMANDS / program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts and a built system, as a user of Moses has them."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    folder = tmp_path_factory.mktemp("system")
    rng = random.Random(1)
    for part, n_sentences in PARTS.items():
        pairs = [_sentence_pair(rng) for _ in range(n_sentences)]
        for language, side in zip(("en", "fr"), zip(*pairs, strict=True), strict=True):
            (folder / f"{part}.{language}").write_text("".join(f"{line}\n" for line in side))
    # With three documents no score is judged, and everything is tuned.
    (folder / "dev.groups").write_text("a\n" * 10 + "b\n" * 10 + "c\n" * 10)
    (folder / "fewer.toml").write_text(FEWER)
    (folder / "one.toml").write_text(ONE)
    (folder / "unlearned.toml").write_text(ONE + UNLEARNED)
    languages = ("--source-language", "en", "--target-language", "fr")
    built = command(
        folder, "moses-bridge", "build", "--corpus", "train", *languages, "--out", "model"
    )
    assert built.returncode == 0, built.stderr
    # Moses's own scripts write relative paths.
    ini = folder / "model" / "moses.ini"
    ini.write_text(ini.read_text().replace(f"{folder}/model", "model"))
    return folder


TEXTS = ("--train", "train", "--dev", "dev", "--test", "test", "--languages", "en", "fr")
SMALL = ("--config", str(EXPERIMENTS / "tiny.toml"), "--config", "fewer.toml")
IMPROVE = ("tuning", "run", "improve", "--ini", "model/moses.ini", *TEXTS, *SMALL, "--out")


def steps_of(better: Path) -> list[str]:
    """The steps that were done, in their order."""
    log = better / "work" / "steps.jsonl"
    lines = map(json.loads, log.read_text().splitlines() if log.exists() else ())
    return [line["name"] for line in lines if line["status"] == 0]


def interrupted(folder: Path, out: str, n_steps: int) -> int:
    """The exit status of the command if Ctrl-C comes after some steps."""
    program, *arguments = IMPROVE
    with subprocess.Popen([COMMANDS / program, *arguments, out], cwd=folder) as process:
        while len(steps_of(folder / out)) < n_steps and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
    return process.returncode


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_one_command_makes_a_better_system_that_translates(
    system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert interrupted(system, "better", n_steps=2) == 130
    better = system / "better"
    assert not (better / "README.txt").exists()
    told = command(system, *IMPROVE, "better")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "to do, about" in told.stdout
    readme = (better / "README.txt").read_text()
    assert told.stdout.endswith(f"\n{readme}")
    assert "chosen by dev: " in readme and "\ntest: " in readme
    table = json.loads((better / "table.json").read_text())
    assert table["rows"][0]["system"] == "Baseline"
    assert table["control"] == "control: random columns"
    assert "<html" in (better / "report.html").read_text()
    # The test text is translated after all candidates are tuned.
    steps = steps_of(better)
    first = next(at for at, name in enumerate(steps) if name.endswith(".translated"))
    for name in ("baseline", "cslm", "nnjm", "cslm-nnjm"):
        for seed in (1, 2):
            assert steps.index(f"runs/{name}-{seed}/weights.json") < first
    # The whole table, not the rows that serve dev and test.
    ini = read_ini(better / "moses.ini")
    path = Path(ini.feature("TranslationModel0").arguments["path"])
    assert path == system / "model" / "phrase-table.gz"
    # Of the two steps at a time, one may have ended just before Ctrl-C, and make not have heard of it.
    assert len(steps) - len(set(steps)) <= 2
    again = command(system, *IMPROVE, "better")
    assert again.returncode == 0, again.stdout + again.stderr
    assert steps_of(better) == steps
    # Whatever dev chose from so little text, the system with both networks is put in its place.
    experiment = read_experiment([EXPERIMENT, EXPERIMENTS / "tiny.toml"])
    monkeypatch.chdir(system)
    ini, train, dev, test, out = map(Path, ("model/moses.ini", "train", "dev", "test", "better"))
    settings = ImproveSettings(
        ini=ini, train=train, dev=dev, test=test, languages=("en", "fr"), out=out
    )
    install(settings, experiment, Choice("cslm-nnjm", {}, better / "work/runs/cslm-nnjm-2"))
    # What was tried is not needed any more; the command is that of README.txt.
    shutil.rmtree(better / "work")
    (system / "new.fr").unlink()
    (line,) = (line for line in readme.splitlines() if line.startswith("    tuning decode "))
    translated = command(system, *line.split())
    assert translated.returncode == 0, translated.stderr
    output = (system / "new.fr").read_text().splitlines()
    assert len(output) == PARTS["new"]
    assert all("nom" in sentence and sentence.endswith(".") for sentence in output)
    (line,) = (line for line in readme.splitlines() if line.startswith("Plain text: "))
    (system / "new.txt").write_text("Noun1 noun2. <b>Adj3</b> noun4 https://example.org/noun5")
    plain = command(system, *line.removeprefix("Plain text: ").split())
    assert plain.returncode == 0, plain.stderr
    assert "<b>" in plain.stdout and plain.stdout.endswith(" https://example.org/noun5\n")
    commands = json.loads((better / "weights.json").read_text())["decoder"]["neural_lm"]
    assert [each.split()[2] for each in commands] == [f"{better}/cslm", f"{better}/nnjm"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_kept_search_is_loaded_by_moses_and_its_lists_are_reranked(system: Path) -> None:
    """Names of what is given may have anything, also bytes that are no UTF-8."""
    strange = "-o'clock 100%$HOME \\#:|||\udce9"
    (system / strange).mkdir()
    for file in ("dev.en", "dev.fr", "dev.groups", "model/moses.ini", f"model/{LINKS_NAMES[0]}"):
        shutil.copy(system / file, system / strange)
    given = ("--ini", f"./{strange}/moses.ini", "--dev", f"./{strange}/dev")
    told = command(system, *IMPROVE, "kept", "--keep-search", "--config", "one.toml", *given)
    assert told.returncode == 0, told.stdout + told.stderr
    readme = (system / "kept" / "README.txt").read_text(errors="surrogateescape")
    assert f"The text must be tokenised as {strange}/dev.en is." in readme
    run = json.loads((system / "kept" / "weights.json").read_text())
    assert run["decoder"]["neural_lm"] == []
    names = [feature.name for feature in read_ini(system / "kept" / "moses.ini").features]
    assert names == [feature.name for feature in read_ini(system / "model" / "moses.ini").features]
    for feature in run["nbest_features"]:
        assert f"--model {system}/kept/cslm " in feature["command"]
    output = command(system, "tuning", "decode", "kept", "--source", "new.en", "--out", "k.fr")
    assert output.returncode == 0, output.stderr
    assert len((system / "k.fr").read_text().splitlines()) == PARTS["new"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_network_that_has_learned_nothing_is_left_out(system: Path) -> None:
    more = ("--dev", "long", "--config", "unlearned.toml")
    told = command(system, *IMPROVE, "judged", *more)
    assert told.returncode == 0, told.stdout + told.stderr
    readme = (system / "judged" / "README.txt").read_text()
    for text in (told.stdout, readme):
        assert re.search(r"^nnjm: worth \+\d\.\d\d BLEU a sentence \(t \d", text, re.MULTILINE)
        for label in ("+CSLM", "+CSLM+NNJM"):
            assert f"\nnot tuned: {label}, because cslm cannot help\n" in text
        assert "not tuned: +NNJM" not in text
    runs = [path.name for path in (system / "judged" / "work" / "runs").glob("*-1")]
    assert sorted(runs) == ["baseline-1", "nnjm-1", "random-1"]
    steps = steps_of(system / "judged")
    again = command(system, *IMPROVE, "judged", *more)
    assert again.returncode == 0 and again.stdout.endswith(f"\n{readme}")
    assert steps_of(system / "judged") == steps


def test_a_faulty_text_is_told_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "fewer.toml").write_text(FEWER)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "moses.ini").touch()
    told = command(tmp_path, *IMPROVE, "better")
    assert told.returncode == 1
    assert "train.en: found no such file, expected a side of the train text" in told.stderr
    assert "Traceback" not in told.stderr
    assert not (tmp_path / "better").exists()
