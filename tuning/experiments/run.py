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
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from moses_bridge.base.errors import ConfigError, InputError, UserError
from moses_bridge.base.experiment import split_experiment
from moses_bridge.base.lock import held_file
from moses_bridge.base.programs import error_tail, find_program, handled
from moses_bridge.base.progress import Progress, duration, estimated_lines, print_note
from moses_bridge.base.provenance import file_digest
from moses_bridge.base.steps import LOG_NAME, Step, finished_steps, read_steps, step_lines
from moses_bridge.base.textio import temporary_directory, write_bytes, write_changed
from moses_bridge.formats.moses_ini import read_ini
from tuning.experiments.description import Experiment, read_experiment
from tuning.experiments.plan import PAGE, TABLE, plan_rules, plan_text, table_path
from tuning.experiments.settings import LINKS_NAMES, RunSettings
from tuning.loop.run_directory import INI_NAME

FOLDER = Path(__file__).parent
PLAN, CONFIG, CHANGES, MESSAGES = "plan.mk", "config", "changes.toml", "run.log"
DIGESTS = "digests"  # below CONFIG
# Experiments of the package: a file beside that of the scale or "", and what to make; "" is all of the page.
PACKAGED = {
    "table1": ("", ""),
    "controls": ("", "controls/table.json"),
    "home": ("", "home/table.json"),
    "optimizers": ("", "optimizers/table.json"),
    "networks": ("networks.toml", "networks/table.json"),
    "best": ("best.toml", "best/table.json"),
}
# Others have a meaning for make, a shell, or the lists of runs of `tuning compare`.
PLAIN = re.compile(r"[\w./@+][\w./@+-]*")
A_STEP = re.compile(r"/moses-bridge step --log \S+ --name (\S+) -- \S*/([\w-]+ [\w-]+)")
NO_RULE = re.compile(r"No rule to make target '(.+?)'(?:, needed by '(.+?)')?")
# At the default scale, on two cores with two steps at a time; proportional to the size of the training text.
SECONDS = {
    "moses-bridge build": 25, "moses-bridge filter": 4, "moses-bridge folds": 1,
    "moses-bridge decode": 34, "moses-bridge join-folds": 10, "rescorer train": 64,
    "rescorer expected-bleu": 78, "rescorer score": 5, "rescorer map": 13, "tuning tune": 23,
    "tuning rerank": 36, "tuning decode": 20, "tuning compare": 8, "tuning report": 2, "tuning worth": 13,
}  # fmt: skip
SECONDS_TO_FETCH, SECONDS_TO_START = 45.0, 2.0
SIZES = {"tiny": 0.1, "small": 1.0, "full": 10.0}
PAIRS = 60_000
MOST_AT_ONCE, BYTES_OF_A_STEP = 4, 1.5e9
SECONDS_BETWEEN_LOOKS, LONGEST_NOTE = 0.5, 60


class PlannedStep(NamedTuple):
    """A step to do, with the seconds that it took the last time, or else is reckoned to take."""

    name: str
    command: str
    seconds: float
    is_measured: bool


def run_experiment(experiment: Sequence[str | Path], settings: RunSettings) -> None:
    """Make the tables of an experiment, and print them.

    The experiment is names of the package's (`PACKAGED`), which change the settings of a scale, and files of
    one's own; without a name the files are the whole experiment. What is finished is not made again, so an
    interrupted or repeated run goes on. OUT/run.log has all that the steps print. With `dry_run` the steps are
    printed instead.

    Raises:
        ConfigError: the experiment or a setting is faulty.
        UserError: make is not installed, a file is missing, or a step failed.
    """
    if settings.dry_run:
        steps, at_once = planned_steps(experiment, settings), steps_at_once(settings)
        for step in steps:
            how = "measured" if step.is_measured else "reckoned"
            print(f"{duration(step.seconds):>12}  {how}  {step.name}  ({step.command})")
        total = duration(sum(step.seconds for step in steps) / at_once)
        print(f"{len(steps)} steps to do, about {total} with {at_once} at a time")
        return
    described, goals = _chosen(experiment, settings)
    out = settings.out
    command = _command(goals, settings, out)
    out.mkdir(parents=True, exist_ok=True)
    with held_file(out / PLAN):  # the folder itself is held by the step that writes its table
        _check_kept(out)
        _write(described, settings, out)
        _follow(command, _to_do(command, settings), out, steps_at_once(settings))
    for text in _results(described, goals, out):
        print(text)


def planned_steps(experiment: Sequence[str | Path], settings: RunSettings) -> list[PlannedStep]:
    """The steps that `run_experiment` would do, in a possible order; nothing is written."""
    described, goals = _chosen(experiment, settings)
    with temporary_directory("plan") as scratch:
        if (settings.out / CONFIG).exists():  # files that stay the same keep their dates
            shutil.copytree(settings.out / CONFIG, scratch / CONFIG)
        _write(described, settings, scratch)
        return _to_do(_command(goals, settings, scratch), settings)


def steps_at_once(settings: RunSettings) -> int:
    """The number of steps to work on at a time."""
    memory = MOST_AT_ONCE * BYTES_OF_A_STEP
    with contextlib.suppress(OSError):
        found = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text())
        memory = 1024 * int(found[1]) if found else memory
    return settings.at_once or max(
        1, min(settings.jobs, MOST_AT_ONCE, int(memory / BYTES_OF_A_STEP))
    )


def _chosen(
    experiment: Sequence[str | Path], settings: RunSettings
) -> tuple[Experiment, list[str]]:
    """An experiment, and the files to make below the folder of the build; without any, all of the page."""
    parts = [*map(str, experiment)]
    named = [PACKAGED[part] for part in parts if part in PACKAGED]
    files = [FOLDER / f"{settings.scale}.toml"] if named else []
    for part in parts:
        if part not in PACKAGED and not Path(part).exists():
            known = ", ".join(PACKAGED)
            raise ConfigError(f"found {part!r}, expected a file of TOML or one of {known}")
        file = FOLDER / PACKAGED[part][0] if part in PACKAGED else Path(part)
        files += [file] if file != FOLDER else []
    goals = [*settings.goals] or [goal for _, goal in named if goal]
    return read_experiment(files, settings.changes), goals


def _results(experiment: Experiment, goals: Sequence[str], out: Path) -> Iterator[str]:
    """What was made, as text: tables; for the whole page also the time of each step, and the page's name."""
    pages = [
        (table_path(name), table.title) for name, table in experiment.tables.items() if table.page
    ]
    for file, title in [(goal, "") for goal in goals] or pages:
        if Path(file).name == TABLE:
            yield from [title] if title else []
            yield (out / file).with_suffix(".txt").read_text()
    if not goals:
        yield from [*step_lines(_logged(out)), ""]
        yield f"The same with charts and translations: {out / PAGE}"


def _check_kept(out: Path) -> None:
    """Refuse (InputError) products with other bytes than their steps made."""
    for step in {step.name: step for step in _logged(out)}.values():
        product = out / step.name
        for name, digest in step.made.items() if product.exists() else ():
            file = product.with_name(name)
            if not file.is_file() or file_digest(file) != digest:
                found, hint = "other bytes than its step made", f"Remove {product} to make it again"
                hint += f", or this step's line in {out / LOG_NAME} to keep what is there"
                raise InputError(file, None, found, "the same", hint)


def _write(experiment: Experiment, settings: RunSettings, folder: Path) -> None:
    """Write the plan, the files of settings and the digests; those that stay the same are not touched."""
    write_bytes(folder / CHANGES, "\n".join(settings.changes).encode())
    split_experiment([*experiment.files, folder / CHANGES], folder / CONFIG)
    given = _given(settings)
    _write_digests({name: files for name, (_, files) in given.items()}, folder / CONFIG / DIGESTS)
    needs = [plan_text(experiment)]
    for rule in plan_rules(experiment):
        recipe = " ".join(rule.recipe)
        names = [
            name for name, (words, _) in given.items() if any(word in recipe for word in words)
        ]
        if names:
            paths = " ".join(f"$(CONFIG)/{DIGESTS}/{name}" for name in names)
            needs.append(f"{rule.target}: {paths}\n")
    write_bytes(folder / PLAN, "".join(needs).encode())


def _given(settings: RunSettings) -> dict[str, tuple[tuple[str, ...], list[Path]]]:
    """What no step makes, and may change with its dates kept: the words of recipes that read it, and files."""
    source, target = settings.languages
    corpus, model = settings.corpus or settings.out / "corpus", settings.model
    train, dev, test = (
        [corpus / f"{part}.{suffix}" for suffix in (source, target, "groups")]
        for part in ("train", "dev", "test")
    )
    ini = model / INI_NAME if model else None
    links = settings.links or (model / LINKS_NAMES[0] if model else None)
    targets = [path.with_suffix(f".{target}") for path in settings.trained]
    given: dict[str, tuple[tuple[str, ...], list[Path]]] = {
        "train": (("$(CORPUS)/train", "$(COMPARE)"), train),
        "dev": (("$(TUNE)", "$(RERANK)"), dev),
        "inputs": (("$(INPUTS",), [*settings.inputs] or [dev[0], test[0]]),
        "test": (("$(TRANSLATE)",), test[:1]),
        "references": (("$(COMPARE)", "$(REPORT)"), [*test, *settings.trained, *targets]),
        "model": (
            ("$(MODEL)/", "$(WHOLE_TABLE)"),
            sorted(read_ini(ini).files()) if ini and ini.is_file() else [],
        ),
        "links": (("$(LINKS)",), [links] if links else []),
        "lists": (("$(LISTS)",), [settings.lists] if settings.lists else []),
    }
    for file in settings.networks.glob("*/config.json") if settings.networks else ():
        given[f"network-{file.parent.name}"] = ((f"$(NETWORKS)/{file.parent.name} ",), [file])
    made = [(settings.out / name).absolute() for name in ("corpus", "model", "lists")]
    return {
        name: (words, [f for f in files if not any(map(f.absolute().is_relative_to, made))])
        for name, (words, files) in given.items()
    }


def _write_digests(given: Mapping[str, Sequence[Path]], folder: Path) -> None:
    """Write files of SHA-256. The first ones are as old as what they describe, which dates alone decide on."""
    is_first = not folder.exists()
    folder.mkdir(exist_ok=True)
    for name, files in given.items():
        found = [file for file in files if file.is_file()]
        write_changed(folder / name, "".join(f"{file_digest(file)}\n" for file in found).encode())
        if is_first:
            date = max((file.stat().st_mtime_ns for file in found), default=0)
            os.utime(folder / name, ns=(date, date))


def _command(goals: Sequence[str], settings: RunSettings, folder: Path) -> list[str]:
    """The command of make that follows the plan in a folder."""
    programs = {name: find_program(name) for name in ("make", "bash")}
    for program, place in programs.items():
        if place is None:
            raise UserError(f"{program} is not installed: apt-get install {program}")
    # The commands are beside the running one, or those of this Python.
    beside, at_once = Path(sys.argv[0]).parent, steps_at_once(settings)
    is_beside = (beside / "rescorer").is_file()
    values: dict[str, Sequence[object]] = {
        "B": [settings.out], "BIN": [beside if is_beside else sysconfig.get_path("scripts")],
        "SOURCE": settings.languages[:1], "TARGET": settings.languages[1:],
        "SCALE": [settings.scale], "PROCESSORS": [settings.jobs],
        "JOBS": [-(-settings.jobs // at_once)], "CORPUS": [settings.corpus or ""],
        "MODEL": [settings.model or ""], "LINKS": [settings.links or ""],
        "LISTS": [settings.lists or ""], "NETWORKS": [settings.networks or ""],
        "INPUTS": settings.inputs, "TRAINED": settings.trained,
    }  # fmt: skip
    words = {name: [str(value) for value in each if value != ""] for name, each in values.items()}
    for word in (word for each in words.values() for word in each):
        check_plain(word)
    given = [f"{name}={' '.join(each)}" for name, each in words.items() if each]
    options = ["-f", str(FOLDER / "rules.mk"), "-r", "--silent", "--no-print-directory"]
    options += [f"--jobs={at_once}", f"SHELL={programs['bash']}", *given]
    options += [f"PLAN={folder / PLAN}", f"CONFIG={folder / CONFIG}"]
    return [
        str(programs["make"]),
        *options,
        *([f"{settings.out}/{goal}" for goal in goals] or ["all"]),
    ]


def check_plain(word: str) -> None:
    """Refuse (ConfigError) a path that make or a shell would not read as it is."""
    if not PLAIN.fullmatch(word):
        raise ConfigError(
            f"found {word!r}, expected letters, digits and . _ - + / @ alone, because make and a shell read "
            "it; name another place, or a link to this one"
        )


def _environment() -> dict[str, str]:
    """This process's, without what a make around it tells its own makes."""
    told = ("MAKE", "MFLAGS", "GNUMAKEFLAGS")
    return {name: value for name, value in os.environ.items() if not name.startswith(told)}


def _to_do(command: Sequence[str], settings: RunSettings) -> list[PlannedStep]:
    asked = subprocess.run(
        [*command, "--dry-run"],
        capture_output=True,
        text=True,
        env=_environment() | {"LC_ALL": "C"},
    )
    if missing := NO_RULE.search(asked.stderr):
        needed = f", which {missing[2]} needs" if missing[2] else ""
        raise UserError(f"found no {missing[1]}{needed}; nothing in the experiment makes it")
    if asked.returncode:
        raise UserError(f"make could not read the plan: {asked.stderr.strip()}")
    took = {step.name: step.seconds for step in finished_steps(_logged(settings.out))}
    text = (settings.corpus or settings.out / "corpus") / f"train.{settings.languages[0]}"
    pairs = estimated_lines(text) or PAIRS * SIZES[settings.scale]
    steps = []
    for name, told in A_STEP.findall(asked.stdout):
        own = SECONDS[told] * pairs / PAIRS if told in SECONDS else SECONDS_TO_FETCH
        steps.append(PlannedStep(name, told, took.get(name, SECONDS_TO_START + own), name in took))
    return steps


def _logged(out: Path) -> list[Step]:
    return read_steps(out / LOG_NAME) if (out / LOG_NAME).exists() else []


def _follow(command: Sequence[str], steps: Sequence[PlannedStep], out: Path, at_once: int) -> None:
    """Run make; print a line for each finished step, and how far the others are."""
    messages, n_seen, is_running = out / MESSAGES, len(_logged(out)), True
    left = {step.name: step.seconds for step in steps}
    total, share, last = sum(left.values()) or 1.0, 0.0, time.monotonic()
    with (
        messages.open("wb") as stream,
        messages.open("rb") as told,
        _started(command, stream) as make,
        Progress(str(out), unit="steps", share=0.0) as progress,
    ):
        while is_running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                make.wait(SECONDS_BETWEEN_LOOKS)
            is_running = make.poll() is None
            finished: list[Step] = []
            with contextlib.suppress(InputError):  # a line half written
                finished = _logged(out)[n_seen:]
            n_seen += len(finished)
            for step in finished:
                if not step.status and left.pop(step.name, None) is not None:
                    at = f"[{len(steps) - len(left):>3}/{len(steps)}]"
                    print_note(f"{at} {step.name}  {duration(step.seconds)}")
                    progress.update(1)
                    last = time.monotonic()
            at_work = min(at_once * (time.monotonic() - last), max(left.values(), default=0.0))
            share = max(share, 1 - (sum(left.values()) - at_work) / total)
            note = (error_tail(told).splitlines() or [""])[-1][:LONGEST_NOTE]
            progress.update(0, note=note, share=share)
    if make.returncode:
        lines = messages.read_text(errors="replace").splitlines()
        errors = [line for line in lines if ": error: " in line] or lines[-5:]
        raise UserError("\n".join([*errors, f"a step failed; all messages are in {messages}"]))


@contextlib.contextmanager
def _started(command: Sequence[str], messages: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Make and its steps, a group of processes that ends with this one, by the same signal."""
    make = subprocess.Popen(
        command, stdout=messages, stderr=messages, env=_environment(), start_new_session=True
    )
    ended_by = [signal.SIGINT]

    def end(number: int, frame: FrameType | None) -> None:
        ended_by.append(signal.Signals(number))
        if len(ended_by) == 2:  # another signal finds the work below already begun
            raise KeyboardInterrupt

    try:
        with handled((signal.SIGTERM, signal.SIGHUP), end):
            try:
                yield make
            finally:
                if make.poll() is None:
                    os.killpg(make.pid, ended_by[-1])
                    make.wait()
    finally:
        if len(ended_by) > 1:
            signal.raise_signal(ended_by[-1])
