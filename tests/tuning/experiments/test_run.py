"""Experiments are run by make itself; the commands of the steps are stand-ins that write what is expected."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import tuning
from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.base.lock import held_file
from tuning.cli import main
from tuning.experiments.run import planned_steps, run_experiment, steps_at_once
from tuning.experiments.settings import RunSettings

# Whatever make or a shell could stumble over.
TITLE = r"50% of #1: a \ 'title' of $HOME, `x` and \"y\" \\"
EXPERIMENT = f"""\
[corpus]
[build]
[start]
[tune]
max_iterations = 3
[compare]
[seeds]
runs = [1]
[starts.start]
[systems.baseline]
label = "Baseline"
[systems.other]
label = "other"
[tables.main]
title = {json.dumps(TITLE)}
"""
STEPS = [
    "model/moses.ini",
    "filtered/moses.ini",
    "runs/start/weights.json",
    "runs/baseline-1/weights.json",
    "runs/baseline.translated",
    "runs/other-1/weights.json",
    "runs/other.translated",
    "table.json",
    "report.html",
]
STAND_IN = """\
#!{python} -SE
import hashlib, json, os, sys, time
from pathlib import Path
def work(program, *words):
    told, folder = " ".join(words), Path(program).parent
    if (folder / "broken").exists() and (folder / "broken").read_text() in told:
        return "tuning: error: it is broken"
    if (folder / "slow").exists():
        (folder / "process").write_text(str(os.getpid()))
        time.sleep(600)
    if words[0] != "decode":
        out = Path(words[words.index("--out") + 1])
        if out.suffix == ".html":
            out.touch()
            return
        out.mkdir(parents=True, exist_ok=True)
        names = [f"{{part}}.{{side}}" for side in ("fr", "en") for part in ("dev", "test", "train")]
        for name in names if words[0] == "corpus" else ():
            (out / name).touch()
            time.sleep(0.01)
        for name in ("moses.ini", "phrase-table.gz", "weights.json", "table.json", "table.txt"):
            (out / name).write_text(f"{{name}} by {{words[0]}}\\n")
program, *words = sys.argv
if words[0] != "step":
    sys.exit(work(program, *words))
# The command of a step, whose process would take as long again.
fault = work(*words[6:])
step = dict(name=words[4], command=" ".join(words[6:]), version="1", started="now", seconds=72.0,
            processor_seconds=1.0, peak_memory=1, status=int(fault is not None), made={{}},
            machine=os.environ["OMP_NUM_THREADS"] + " threads")
product = Path(words[2]).parent / words[4]
if product.is_file():
    step["made"][product.name] = hashlib.sha256(product.read_bytes()).hexdigest()
with open(words[2], "a") as log:
    log.write(json.dumps(step) + "\\n")
sys.exit(fault)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an experiment, a corpus and commands; the one running is one of these."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    (tmp_path / "bin").mkdir()
    for name in ("moses-bridge", "rescorer", "tuning"):
        program = tmp_path / "bin" / name
        program.write_text(STAND_IN.format(python=sys.executable))
        program.chmod(0o755)
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    (tmp_path / "corpus").mkdir()
    for part in ("train", "dev", "test"):
        for language in ("en", "fr"):
            (tmp_path / "corpus" / f"{part}.{language}").write_text("a\n" * 6000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin" / "tuning"), "run"])
    return tmp_path


def settings(dry_run: bool = False, changes: tuple[str, ...] = ()) -> RunSettings:
    return RunSettings(out=Path("b"), corpus=Path("corpus"), dry_run=dry_run, changes=changes)


def logged() -> list[str]:
    return [json.loads(line)["name"] for line in Path("b/steps.jsonl").read_text().splitlines()]


def files_below(folder: Path) -> set[Path]:
    return {*folder.rglob("*")}


def has_ended(process: int) -> bool:
    """Whether a process is gone, or nobody has asked for its status yet."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].startswith("Z")
    return True


def test_a_run_makes_the_tables_and_prints_them_below_their_titles(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = Path("mine.toml").rename(r"mine #1: 50% of $(x)\.toml")
    run_experiment([odd], settings())
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{TITLE}\ntable.txt by compare\n")
    assert printed.out.rstrip().endswith("b/report.html")
    assert "all steps, one after the other" in printed.out
    assert sorted(logged()) == sorted(STEPS)
    steps = [line for line in printed.err.splitlines() if line.startswith("[")]
    assert len(steps) == 9
    assert steps[-1] == "[  9/9] report.html  1 min 12 s"
    assert Path("b/config/tune.toml").read_text() == '"max_iterations" = 3\n'


def test_what_is_finished_is_not_made_again(place: Path) -> None:
    run_experiment(["mine.toml"], settings())
    run_experiment(["mine.toml"], settings())
    assert len(logged()) == 9
    # A changed section makes the tunings anew, and what is made from them.
    run_experiment(["mine.toml"], settings(changes=("tune.max_iterations = 4", "seeds.runs = [1]")))
    assert Path("b/config/tune.toml").read_text() == '"max_iterations" = 4\n'
    assert sorted(logged()[9:]) == sorted(STEPS[3:])


def test_text_that_was_fetched_is_finished_though_its_files_are_not_equally_old(
    place: Path,
) -> None:
    fetched = RunSettings(out=Path("b"))
    run_experiment(["mine.toml"], fetched)
    assert Path("b/corpus/train.fr").stat().st_mtime < Path("b/corpus/train.en").stat().st_mtime
    assert sorted(logged()) == sorted(["corpus/train.en", *STEPS])
    assert planned_steps(["mine.toml"], fetched) == []


MODEL_INI = """\
[feature]
PhraseDictionaryMemory name=TranslationModel0 num-features=1 path={path} input-factor=0 output-factor=0
[weight]
TranslationModel0= 0.2
"""


@pytest.mark.parametrize(
    ("file", "anew"),
    [
        ("corpus/train.fr", ["table.json", "report.html"]),
        ("corpus/dev.fr", STEPS[2:]),
        ("corpus/dev.en", STEPS[1:]),
        ("corpus/test.fr", ["table.json", "report.html"]),
        ("given/phrase-table", STEPS[1:]),
    ],
)
def test_what_changed_with_its_date_and_size_kept_is_made_anew(
    place: Path, file: str, anew: list[str]
) -> None:
    """make itself looks at dates alone, and never at files that an ini names."""
    (place / "given").mkdir()
    (place / "given" / "phrase-table").write_text("a ||| b ||| 0.5\n")
    (place / "given" / "moses.ini").write_text(
        MODEL_INI.format(path=place / "given" / "phrase-table")
    )
    given = replace(settings(), model=Path("given"))
    run_experiment(["mine.toml"], given)
    run_experiment(["mine.toml"], given)
    before = logged()
    assert sorted(before) == sorted(STEPS[1:])
    changed, old = place / file, (place / file).stat()
    changed.write_bytes(changed.read_bytes().replace(b"a", b"c"))
    os.utime(changed, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert {step.name for step in planned_steps(["mine.toml"], given)} == set(anew)
    run_experiment(["mine.toml"], given)
    assert sorted(logged()[len(before) :]) == sorted(anew)
    assert planned_steps(["mine.toml"], given) == []


def test_a_corpus_in_place_of_the_fetched_one_is_noticed_though_it_is_older(place: Path) -> None:
    run_experiment(["mine.toml"], RunSettings(out=Path("b")))
    for file in Path("corpus").iterdir():
        os.utime(file, ns=(1, 1))
    assert len(planned_steps(["mine.toml"], settings())) == len(STEPS)


def test_a_build_of_an_earlier_version_is_finished(place: Path) -> None:
    """It has no digests yet."""
    run_experiment(["mine.toml"], settings())
    shutil.rmtree("b/config/digests")
    assert planned_steps(["mine.toml"], settings()) == []


@pytest.mark.parametrize("name", ["runs/baseline-1/weights.json", "table.json"])
def test_a_product_that_is_not_what_its_step_made_is_refused(place: Path, name: str) -> None:
    """With date and size kept, as a disk changes it; all goes on without it, or its line in the log."""
    run_experiment(["mine.toml"], settings())
    product, log = Path("b") / name, Path("b/steps.jsonl")
    kept, date = product.read_bytes(), product.stat().st_mtime_ns
    damaged = bytes([kept[0] ^ 1, *kept[1:]])
    product.write_bytes(damaged)
    os.utime(product, ns=(date, date))
    with pytest.raises(UserError, match=f"b/{name}: found other bytes than its step made"):
        run_experiment(["mine.toml"], settings())
    assert len(logged()) == 9
    product.unlink()
    run_experiment(["mine.toml"], settings())
    assert product.read_bytes() == kept
    product.write_bytes(damaged)
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if f'"{name}"' not in line))
    run_experiment(["mine.toml"], settings())


def test_a_second_run_in_the_folder_is_refused(place: Path) -> None:
    Path("b").mkdir()
    with held_file(Path("b/plan.mk")), pytest.raises(UserError, match="another command writes"):
        run_experiment(["mine.toml"], settings())
    assert files_below(Path("b")) == set()


def test_a_failed_step_is_told_and_tried_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "bin" / "broken").write_text("b/runs/other-1")
    with pytest.raises(
        UserError, match=r"tuning: error: it is broken\n.*all messages are in b/run.log"
    ):
        run_experiment(["mine.toml"], settings())
    assert not Path("b/table.json").exists()
    assert "] runs/other-1/weights.json " not in capsys.readouterr().err  # as a finished one is
    (place / "bin" / "broken").unlink()
    before = len(logged())
    run_experiment(["mine.toml"], settings())
    assert {"model/moses.ini", "filtered/moses.ini"}.isdisjoint(logged()[before:])
    assert Path("b/report.html").exists()


def test_a_dry_run_tells_the_time_of_each_step_and_writes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_below(place)
    run_experiment(["mine.toml"], settings(dry_run=True))
    assert files_below(place) == before
    lines = capsys.readouterr().out.splitlines()
    # A tenth of the default scale's 60,000 pairs.
    assert lines[0] == "       4.5 s  reckoned  model/moses.ini  (moses-bridge build)"
    assert lines[-1].startswith("9 steps to do, about ")
    run_experiment(["mine.toml"], settings())
    Path("b/table.json").unlink()
    before = files_below(place)
    steps = planned_steps(["mine.toml"], settings())
    assert [(step.name, step.seconds, step.is_measured) for step in steps] == [
        ("table.json", 72.0, True),
        ("report.html", 72.0, True),
    ]
    assert files_below(place) == before


@pytest.mark.parametrize("flags", ["n", " -- CORPUS=nowhere"])
def test_a_make_around_it_changes_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    """The Makefile calls it: `make --dry-run` would hand its flag down, `make CORPUS=x` its variable."""
    monkeypatch.setenv("MAKEFLAGS", flags)
    monkeypatch.setenv("INPUTS", "nowhere")
    run_experiment(["mine.toml"], settings())
    assert len(logged()) == 9


def test_files_can_be_made_instead_of_tables(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuning.run("mine.toml", "b", {"corpus": "corpus", "goals": ["runs/start/weights.json"]})
    assert logged() == STEPS[:3]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "name", ["b c", "b#c", "b%c", "b:c", "b\\c", "b=c", "-b", "$(b)", "b,c", "b'c", "b*"]
)
def test_a_name_that_make_would_read_otherwise_is_refused(place: Path, name: str) -> None:
    before = files_below(place)
    result = CliRunner().invoke(main, ["run", "mine.toml", f"--out={name}"])
    assert result.exit_code == 1
    assert f"found {name!r}, expected letters, digits and . _ - + / @ alone" in result.output
    assert files_below(place) == before


def test_what_is_missing_is_one_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("corpus/test.fr").unlink()
    with pytest.raises(UserError, match=r"found no corpus/test.fr, which b/table.json needs"):
        run_experiment(["mine.toml"], settings())
    with pytest.raises(
        ConfigError, match="found 'tabel1', expected a file of TOML or one of table1"
    ):
        run_experiment(["tabel1"], settings())
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(UserError, match=r"^make is not installed: apt-get install make$"):
        run_experiment(["mine.toml"], settings())


@pytest.mark.parametrize(
    ("numbers", "status"),
    [([signal.SIGINT], 130), ([signal.SIGTERM], -15), ([signal.SIGTERM, signal.SIGTERM], -15)],
)
def test_a_signal_ends_the_steps_too(place: Path, numbers: list[int], status: int) -> None:
    (place / "bin" / "slow").touch()
    program = (
        f"import sys; sys.argv[0] = {str(place / 'bin' / 'tuning')!r}; "
        "from tuning.cli import main; main(prog_name='tuning')"
    )
    arguments = ["run", "mine.toml", "--out", "b", "--corpus", "corpus"]
    path = os.pathsep.join(entry or str(place) for entry in sys.path)
    running = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env={**os.environ, "PYTHONPATH": path}
    )
    started = place / "bin" / "process"
    while not (started.exists() and started.read_text()):
        assert running.poll() is None
        time.sleep(0.05)
    for number in numbers:
        running.send_signal(number)
    assert running.wait(60) == status
    end = time.monotonic() + 60
    while not has_ended(int(started.read_text())):
        assert time.monotonic() < end
        time.sleep(0.05)
    started.with_name("slow").unlink()
    run_experiment(["mine.toml"], settings())
    assert Path("b/report.html").exists()


@pytest.mark.parametrize(("jobs", "of_a_step"), [(1, 1), (3, 2)])
def test_no_step_is_without_a_processor(place: Path, jobs: int, of_a_step: int) -> None:
    goals = ("runs/start/weights.json",)
    run_experiment(["mine.toml"], replace(settings(), goals=goals, jobs=jobs, at_once=2))
    commands = Path("b/steps.jsonl").read_text()
    assert f"--jobs {of_a_step} " in commands and f"--jobs {of_a_step - 1} " not in commands
    machines = {json.loads(line)["machine"] for line in commands.splitlines()}
    assert machines == {f"{of_a_step} threads"}


def test_the_processors_are_divided_among_the_steps() -> None:
    assert steps_at_once(RunSettings(out=Path("b"), jobs=1)) == 1
    assert 1 <= steps_at_once(RunSettings(out=Path("b"), jobs=64)) <= 4
    assert steps_at_once(RunSettings(out=Path("b"), jobs=64, at_once=9)) == 9
