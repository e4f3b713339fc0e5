"""Running an experiment by its plan: GNU make is the engine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from moses_bridge.base.errors import ConfigError, InputError, UserError
from moses_bridge.base.experiment import split_experiment
from moses_bridge.base.lock import held_file
from moses_bridge.base.programs import error_tail, find_program
from moses_bridge.base.progress import Progress, duration, estimated_lines, print_note
from moses_bridge.base.steps import (
    FORWARDED,
    LOG_NAME,
    Step,
    finished_steps,
    read_steps,
    step_lines,
)
from moses_bridge.base.textio import open_write
from tuning.experiments.description import Experiment, read_experiment
from tuning.experiments.plan import PAGE, TABLE, table_path, write_plan
from tuning.experiments.run_settings import RunSettings

FOLDER = Path(__file__).parent
RULES = FOLDER / "rules.mk"
PLAN, CONFIG, CHANGES, MESSAGES = "plan.mk", "config", "changes.toml", "run.log"
# The experiments of the package: files beside that of the scale, and what to make; () is all of the page.
PACKAGED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "table1": ((), ()),
    "controls": ((), ("controls/table.json",)),
    "home": ((), ("home/table.json",)),
    "optimizers": ((), ("optimizers/table.json",)),
    "networks": (("networks.toml",), ("networks/table.json",)),
    "best": (("best.toml",), ("best/table.json",)),
}
# Others have a meaning for make, a shell, or the lists of runs of `tuning compare`.
PLAIN = re.compile(r"[\w./@+][\w./@+-]*")
A_STEP = re.compile(r"/moses-bridge step --log \S+ --name (\S+) -- \S*/([\w-]+ [\w-]+)")
NO_RULE = re.compile(r"No rule to make target '(.+?)'(?:, needed by '(.+?)')?")
# Of the default scale, measured on two cores with two steps at a time; the other scales in parts of it.
SECONDS = {
    "moses-bridge corpus": 48, "moses-bridge build": 60, "moses-bridge filter": 10,
    "moses-bridge folds": 5, "moses-bridge decode": 25, "moses-bridge join-folds": 5,
    "rescorer train": 120, "rescorer expected-bleu": 80, "rescorer score": 10, "rescorer map": 20,
    "tuning tune": 35, "tuning rerank": 60, "tuning translate": 25, "tuning compare": 12,
    "tuning report": 8,
}  # fmt: skip
SIZES = {"tiny": 0.1, "small": 1.0, "full": 10.0}
PAIRS = 60_000
MOST_AT_ONCE, BYTES_OF_A_STEP = 4, 1.5e9
SECONDS_BETWEEN_LOOKS = 0.5
LONGEST_NOTE = 60


@dataclass(frozen=True)
class PlannedStep:
    """A step to do.

    Attributes:
        name: its file, below the folder of the build.
        command: its command, like "rescorer train".
        seconds: the time it took the last time, or is reckoned to take.
        is_measured: whether it was done before.
    """

    name: str
    command: str
    seconds: float
    is_measured: bool


def run_experiment(experiment: Sequence[str | Path], settings: RunSettings) -> None:
    """Make the tables of an experiment, and print them.

    What is finished is not made again, so an interrupted or repeated run goes on. OUT/run.log has all that the
    steps print. With `dry_run` the steps are printed instead.

    Args:
        experiment: names of experiments of the package (`PACKAGED`), which change the settings of a scale, and
            files of one's own; without a name the files are the whole experiment.
        settings: where it is made, and from what.

    Raises:
        ConfigError: the experiment or a setting is faulty.
        UserError: make is not installed, a file is missing, or a step failed.
    """
    if settings.dry_run:
        print("\n".join(_steps_in_words(planned_steps(experiment, settings), settings)))
        return
    described = _read(experiment, settings)
    goals, out = _goals(experiment, settings), settings.out
    command = _command(goals, settings, out)
    out.mkdir(parents=True, exist_ok=True)
    with held_file(out / PLAN):
        _write(described, settings.changes, out)
        _follow(command, _to_do(command, settings), out)
    for text in _results(described, goals, out):
        print(text)


def planned_steps(experiment: Sequence[str | Path], settings: RunSettings) -> list[PlannedStep]:
    """The steps that `run_experiment` would do, in an order in which they can be done; it writes nothing."""
    described = _read(experiment, settings)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        # Files of settings keep their dates where they stay the same.
        if (settings.out / CONFIG).exists():
            shutil.copytree(settings.out / CONFIG, scratch / CONFIG)
        _write(described, settings.changes, scratch)
        return _to_do(_command(_goals(experiment, settings), settings, scratch), settings)


def steps_at_once(settings: RunSettings) -> int:
    """The number of steps to work on at a time."""
    memory = MOST_AT_ONCE * BYTES_OF_A_STEP
    with contextlib.suppress(OSError):
        found = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text())
        memory = 1024 * int(found[1]) if found else memory
    most = min(settings.jobs, MOST_AT_ONCE, int(memory / BYTES_OF_A_STEP))
    return settings.at_once or max(1, most)


# --- The experiment


def _read(experiment: Sequence[str | Path], settings: RunSettings) -> Experiment:
    return read_experiment(_files(experiment, settings.scale), settings.changes)


def _files(experiment: Sequence[str | Path], scale: str) -> list[Path]:
    """The files of an experiment: the scale's are first where a name of the package is among its parts."""
    parts = [*map(str, experiment)]
    files = [FOLDER / f"{scale}.toml"] if PACKAGED.keys() & set(parts) else []
    for part in parts:
        if part in PACKAGED:
            files += [FOLDER / name for name in PACKAGED[part][0]]
        elif Path(part).exists():
            files.append(Path(part))
        else:
            known = ", ".join(PACKAGED)
            raise ConfigError(f"found {part!r}, expected a file of TOML or one of {known}")
    return files


def _goals(experiment: Sequence[str | Path], settings: RunSettings) -> list[str]:
    """Files to make, below the folder of the build; without any, all tables of the page and the page."""
    names = [str(part) for part in experiment if str(part) in PACKAGED]
    return [*settings.goals] or [goal for name in names for goal in PACKAGED[name][1]]


def _results(experiment: Experiment, goals: Sequence[str], out: Path) -> Iterator[str]:
    """What was made, as text: tables; for the whole page also the time of each step, and the page's name."""
    for goal in goals:
        if Path(goal).name == TABLE:
            yield (out / goal).with_suffix(".txt").read_text()
    if not goals:
        for name, table in experiment.tables.items():
            if table.page:
                yield from [table.title] if table.title else []
                yield (out / table_path(name)).with_suffix(".txt").read_text()
        yield from [*step_lines(_logged(out / LOG_NAME)), ""]
        yield f"The same with charts and translations: {out / PAGE}"


# --- Calling make


def _command(goals: Sequence[str], settings: RunSettings, folder: Path) -> list[str]:
    """The command that follows the plan in a folder."""
    programs = {name: find_program(name) for name in ("make", "bash")}
    for name, place in programs.items():
        if place is None:
            raise UserError(f"{name} is not installed: apt-get install {name}")
    variables = [f"{name}={value}" for name, value in _variables(settings).items() if value]
    return [
        *(str(programs["make"]), "-f", str(RULES), "-r", "--no-print-directory"),
        *(f"--jobs={steps_at_once(settings)}", f"SHELL={programs['bash']}", *variables),
        *(f"PLAN={folder / PLAN}", f"CONFIG={folder / CONFIG}"),
        *([f"{settings.out}/{goal}" for goal in goals] or ["all"]),
    ]


def _write(experiment: Experiment, changes: Sequence[str], folder: Path) -> None:
    """Write the plan and the files of settings; those that stay the same are not touched."""
    write_plan(experiment, folder / PLAN)
    with open_write(folder / CHANGES) as stream:
        stream.write("\n".join(changes).encode())
    split_experiment([*experiment.files, folder / CHANGES], folder / CONFIG)


def _variables(settings: RunSettings) -> dict[str, str]:
    """The variables of the rules; "" for what is not given."""
    source, target = settings.languages
    one_step = -(-settings.jobs // steps_at_once(settings))
    given = {
        "B": settings.out, "BIN": _programs(), "SOURCE": source, "TARGET": target,
        "SCALE": settings.scale, "PROCESSORS": settings.jobs, "JOBS": one_step,
        "CORPUS": settings.corpus, "MODEL": settings.model, "LINKS": settings.links,
        "LISTS": settings.lists, "NETWORKS": settings.networks,
    }  # fmt: skip
    words = {name: [] if value is None else [str(value)] for name, value in given.items()}
    words |= {"INPUTS": [*map(str, settings.inputs)], "TRAINED": [*map(str, settings.trained)]}
    for word in (word for each in words.values() for word in each):
        if not PLAIN.fullmatch(word):
            raise ConfigError(
                f"found {word!r}, expected letters, digits and . _ - + / @ alone, because make and a shell "
                "read it; name another place, or a link to this one"
            )
    return {name: " ".join(each) for name, each in words.items()}


def _programs() -> Path:
    """The folder of the commands: that of the running one, or that of this Python."""
    beside = Path(sys.argv[0]).parent
    return beside if (beside / "rescorer").is_file() else Path(sysconfig.get_path("scripts"))


def _environment() -> dict[str, str]:
    """This process's, without what a make around it tells its own makes."""
    told = ("MAKE", "MFLAGS", "GNUMAKEFLAGS")
    return {name: value for name, value in os.environ.items() if not name.startswith(told)}


# --- Steps


def _to_do(command: Sequence[str], settings: RunSettings) -> list[PlannedStep]:
    """The steps that make would do, with the time of the last time or an estimate."""
    in_english = _environment() | {"LC_ALL": "C"}
    asked = subprocess.run(
        [*command, "--dry-run"], capture_output=True, text=True, env=in_english, check=False
    )
    if missing := NO_RULE.search(asked.stderr):
        needed = f", which {missing[2]} needs" if missing[2] else ""
        raise UserError(
            f"found no {missing[1]}{needed}; it is neither there nor made by the experiment"
        )
    if asked.returncode:
        raise UserError(f"make could not read the plan: {asked.stderr.strip()}")
    took = {step.name: step.seconds for step in finished_steps(_logged(settings.out / LOG_NAME))}
    size = _size(settings)
    return [
        PlannedStep(name, told, took.get(name, size * SECONDS.get(told, 0.0)), name in took)
        for name, told in A_STEP.findall(asked.stdout)
    ]


def _size(settings: RunSettings) -> float:
    """The size of the training text in parts of the default scale's."""
    pairs = None
    if settings.corpus is not None:
        pairs = estimated_lines(settings.corpus / f"train.{settings.languages[0]}")
    return SIZES[settings.scale] if pairs is None else pairs / PAIRS


def _steps_in_words(steps: Sequence[PlannedStep], settings: RunSettings) -> Iterator[str]:
    for step in steps:
        how = "measured" if step.is_measured else "reckoned"
        yield f"{duration(step.seconds):>12}  {how}  {step.name}  ({step.command})"
    at_once = steps_at_once(settings)
    total = duration(sum(step.seconds for step in steps) / at_once)
    yield f"{len(steps)} steps to do, about {total} with {at_once} at a time"


def _follow(command: Sequence[str], steps: Sequence[PlannedStep], out: Path) -> None:
    """Run make; print a line for each finished step, and how far the others are."""
    log, messages = out / LOG_NAME, out / MESSAGES
    n_seen = len(_logged(log))
    left = {step.name: step.seconds for step in steps}
    total = sum(left.values()) or 1.0
    with (
        messages.open("wb") as stream,
        messages.open("rb") as told,
        _started(command, stream) as make,
        Progress(str(out), unit="steps", share=0.0) as progress,
    ):
        is_running = True
        while is_running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                make.wait(SECONDS_BETWEEN_LOOKS)
            is_running = make.poll() is None
            finished: list[Step] = []
            with contextlib.suppress(InputError):  # a line half written
                finished = _logged(log)[n_seen:]
            n_seen += len(finished)
            for step in finished:
                if not step.status and left.pop(step.name, None) is not None:
                    at = f"[{len(steps) - len(left):>3}/{len(steps)}]"
                    print_note(f"{at} {step.name}  {duration(step.seconds)}")
                    progress.update(1, share=1 - sum(left.values()) / total)
            progress.update(0, note=(error_tail(told).splitlines() or [""])[-1][:LONGEST_NOTE])
    if make.returncode:
        lines = messages.read_text(errors="replace").splitlines()
        errors = [line for line in lines if ": error: " in line] or lines[-5:]
        raise UserError("\n".join([*errors, f"a step failed; all messages are in {messages}"]))


def _logged(log: Path) -> list[Step]:
    return read_steps(log) if log.exists() else []


@contextlib.contextmanager
def _started(command: Sequence[str], messages: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Make and its steps, in a group of processes that a signal to this one ends as a whole."""
    make = subprocess.Popen(
        command, stdout=messages, stderr=messages, env=_environment(), start_new_session=True
    )

    def end(number: int, frame: FrameType | None = None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(make.pid, number)
        make.wait()
        if number in earlier:
            signal.signal(number, earlier[number])
            signal.raise_signal(number)

    is_main = threading.current_thread() is threading.main_thread()
    earlier = {number: signal.signal(number, end) for number in FORWARDED if is_main}
    try:
        yield make
    finally:
        if make.poll() is None:
            end(signal.SIGINT)
        for number, handler in earlier.items():
            signal.signal(number, handler)
