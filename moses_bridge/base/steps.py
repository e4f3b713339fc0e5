"""Steps of a pipeline: time and memory of each one, logged as JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from moses_bridge.base.duration import duration
from moses_bridge.base.errors import InputError, ToolError, shown
from moses_bridge.base.json_files import parse_json
from moses_bridge.base.processors import n_processors, processor_name
from moses_bridge.base.provenance import package_version
from moses_bridge.base.textio import read_lines

LOG_NAME = "steps.jsonl"
KIBIBYTE = 1024
FORWARDED = (signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128  # a shell's exit status for signal n is 128 + n


@dataclass(frozen=True)
class Step:
    """One finished command.

    Attributes:
        name: name of its product.
        command: its command line.
        version: version of this package.
        started: date and time, UTC, ISO 8601.
        seconds: seconds from its start to its end.
        processor_seconds: processor time of the command and its children, in seconds.
        peak_memory: peak memory of the largest of its processes, in bytes.
        status: its exit status.
        machine: processor, number of processors for it, memory, system, Python.
    """

    name: str
    command: str
    version: str
    started: str
    seconds: float
    processor_seconds: float
    peak_memory: int
    status: int
    machine: str


def run_step(command: Sequence[str], log: Path, name: str) -> int:
    """Run a command and add a line about it to a log.

    SIGTERM and SIGHUP are forwarded to the command. An interrupt from the terminal reaches both processes,
    and only the command reacts.

    Args:
        command: program and arguments; it inherits this process's standard input and output.
        log: the log; made if it is missing.
        name: name of the command's product.

    Returns:
        Its exit status, 128 + n if signal n ended it.

    Raises:
        ToolError: the command could not be started.
        OSError: the log cannot be written.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    used = _used(resource.RUSAGE_CHILDREN)
    with _forwarding() as signals:
        try:
            process = subprocess.Popen(command)
        except OSError as error:
            raise ToolError(command, None, str(error)) from error
        signals.go_to(process)
        status = process.wait()
    status = SIGNALLED - status if status < 0 else status
    step = _step(name, shlex.join(command), started, clock, used, resource.RUSAGE_CHILDREN, status)
    _append(step, log)
    return status


@contextlib.contextmanager
def recorded_step(log: Path, name: str, command: str) -> Iterator[None]:
    """Log the work of this process in the `with` block; if it raises an error, nothing is logged.

    Args:
        log: the log; made with its directory if it is missing.
        name: name of the product.
        command: the command line.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    used = _used(resource.RUSAGE_SELF) + _used(resource.RUSAGE_CHILDREN)
    yield
    own, children = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    _append(_step(name, command, started, clock, used, own, 0, children), log)


def read_steps(log: Path) -> list[Step]:
    """The steps in a log.

    Raises:
        InputError: the log is missing, or a line is malformed.
    """
    return [_parsed(line, log, number) for number, line in enumerate(read_lines(log), start=1)]


def finished_steps(steps: Sequence[Step]) -> list[Step]:
    """The last success of each name, in the order of their ends, plus the time of failed tries before it."""
    finished: dict[str, Step] = {}
    lost: dict[str, float] = {}
    for step in steps:
        if step.status:
            lost[step.name] = lost.get(step.name, 0.0) + step.seconds
        else:
            finished.pop(step.name, None)
            seconds = step.seconds + lost.pop(step.name, 0.0)
            finished[step.name] = Step(**{**asdict(step), "seconds": seconds})
    return [*finished.values()]


def step_lines(steps: Sequence[Step]) -> list[str]:
    """Finished steps as text: time, memory of the largest process, product; then the total time."""
    finished = finished_steps(steps)
    lines = [f"{'time':>9}  {'memory':>8}  step"]
    lines += [
        f"{duration(step.seconds):>9}  {step.peak_memory / 1e6:>5,.0f} MB  {step.name}"
        for step in finished
    ]
    total = sum(step.seconds for step in finished)
    return [*lines, f"{duration(total):>9}  {'':>8}  all steps, one after the other"]


def machine() -> str:
    """A description of this machine: processor, number of processors, memory, system, Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / KIBIBYTE**3
    parts = [
        processor_name(),
        f"{n_processors()} processors",
        f"{memory:.0f} GiB",
        platform.system(),
        f"Python {platform.python_version()}",
    ]
    return ", ".join(part for part in parts if part)


def _step(
    name: str,
    command: str,
    started: datetime,
    clock: float,
    used: float,
    who: int,
    status: int,
    others: int | None = None,
) -> Step:
    measured = [who] if others is None else [who, others]
    return Step(
        name=name,
        command=command,
        version=own_version(),
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - clock, 3),
        processor_seconds=round(sum(map(_used, measured)) - used, 3),
        peak_memory=KIBIBYTE * max(resource.getrusage(each).ru_maxrss for each in measured),
        status=status,
        machine=machine(),
    )


def _used(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def _append(step: Step, log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:  # one write, so that lines of concurrent steps do not mix
        stream.write(json.dumps(asdict(step)).encode() + b"\n")


def _parsed(line: bytes, log: Path, number: int) -> Step:
    try:
        step = Step(**parse_json(line, log))
        return Step(
            **{
                name: kind(value)
                for (name, value), kind in zip(asdict(step).items(), _KINDS, strict=True)
            }
        )
    except (TypeError, ValueError, OverflowError, InputError) as error:
        found = f"{shown(line)} ({error})"
        raise InputError(log, number, found, "a line of `moses-bridge step`") from error


_KINDS = (str, str, str, str, float, float, int, int, str)


class _Signals:
    """Signals for a command, kept until it has started."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def forward(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)

    def go_to(self, process: subprocess.Popen[bytes]) -> None:
        """Forward earlier and later signals to this process."""
        self._process = process
        for number in self._early:
            process.send_signal(number)


def _left_to_the_command(number: int, frame: FrameType | None) -> None:
    """Handle an interrupt by doing nothing; if it were ignored instead, the command would inherit that."""


@contextlib.contextmanager
def _forwarding() -> Iterator[_Signals]:
    """Forward signals sent to this process to a command, until the end of the `with` block."""
    signals = _Signals()
    earlier = {number: signal.signal(number, signals.forward) for number in FORWARDED}
    earlier[signal.SIGINT] = signal.signal(signal.SIGINT, _left_to_the_command)
    try:
        yield signals
    finally:
        sys.stdout.flush()
        for number, handler in earlier.items():
            signal.signal(number, handler)


def own_version() -> str:
    """The version of this package; "unknown" where nothing says it, as while it is being installed anew."""
    return package_version() or "unknown"
