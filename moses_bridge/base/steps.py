"""Steps of a pipeline, logged as JSON lines with their time and memory."""

from __future__ import annotations

import contextlib
import json
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from moses_bridge.base.errors import InputError, ToolError
from moses_bridge.base.json_files import parse_json, record_of
from moses_bridge.base.machine import machine
from moses_bridge.base.programs import ENDING_SIGNALS, handled
from moses_bridge.base.progress import duration, unless_full
from moses_bridge.base.provenance import file_digest, own_version
from moses_bridge.base.textio import append_line, read_lines

LOG_NAME = "steps.jsonl"
A_STEP = "a line of `moses-bridge step`"
KIBIBYTE = 1024
SIGNALLED = 128  # a shell's exit status for signal n is 128 + n


@dataclass(frozen=True)
class Step:
    """One finished command.

    Attributes:
        name: name of its product.
        started: date and time, UTC, ISO 8601.
        processor_seconds: processor time of the command and its children, in seconds.
        peak_memory: peak memory of the largest of its processes, in bytes.
        machine: processor, number of processors for it, memory, system, Python.
        made: SHA-256 by name of the product's file, and of those that differ in the suffix.
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
    made: dict[str, str] = field(default_factory=dict)


def run_step(command: Sequence[str], log: Path, name: str) -> int:
    """Run a command that makes `name`, add a line about it to a log, and return its exit status.

    The command inherits standard input and output. SIGTERM and SIGHUP are forwarded to it. An interrupt from
    the terminal reaches both processes; only the command reacts. The status is 128 + n if signal n ended it.

    Raises:
        ToolError: the command could not be started.
        OSError: the log cannot be written.
    """
    finish = _measured(name, shlex.join(command), (resource.RUSAGE_CHILDREN,))
    status = _run(command)
    status = SIGNALLED - status if status < 0 else status
    made = {} if status else _digests(log.parent / name)
    _append(replace(finish(status), made=made), log)
    return status


@contextlib.contextmanager
def recorded_step(log: Path, name: str, command: str) -> Iterator[None]:
    """Log the `with` block as a step of this process, unless it raises an error; see `run_step`."""
    finish = _measured(name, command, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    yield
    _append(finish(0), log)


def read_steps(log: Path) -> list[Step]:
    """The steps in a log; InputError if the log is missing, or a line is malformed."""
    return [
        record_of(Step, parse_json(line, log, number, A_STEP), log, A_STEP, line=number)
        for number, line in enumerate(read_lines(log), start=1)
    ]


def finished_steps(steps: Sequence[Step]) -> list[Step]:
    """The last success of each name, in order of their ends, including the time of failed tries before."""
    finished: dict[str, Step] = {}
    lost: dict[str, float] = {}
    for step in steps:
        if step.status:
            lost[step.name] = lost.get(step.name, 0.0) + step.seconds
        else:
            finished.pop(step.name, None)
            seconds = step.seconds + lost.pop(step.name, 0.0)
            finished[step.name] = replace(step, seconds=seconds)
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


def _measured(name: str, command: str, processes: Sequence[int]) -> Callable[[int], Step]:
    """Start measuring processes, as numbered by `resource`; the result maps an exit status to the step."""
    started, clock, used = datetime.now(UTC), time.monotonic(), _used(processes)

    def finish(status: int) -> Step:
        return Step(
            name=name,
            command=command,
            version=own_version(),
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - clock, 3),
            processor_seconds=round(_used(processes) - used, 3),
            peak_memory=KIBIBYTE * max(resource.getrusage(each).ru_maxrss for each in processes),
            status=status,
            machine=machine(),
        )

    return finish


def _digests(product: Path) -> dict[str, str]:
    """Of a file, perhaps still called NAME.new, and of those that differ in the suffix."""
    with contextlib.suppress(OSError, InputError):
        files = {file.name.removesuffix(".new"): file for file in sorted(product.parent.iterdir())}
        return {
            name: file_digest(file)
            for name, file in files.items()
            if Path(name).stem == product.stem and file.is_file()
        }
    return {}


def _used(processes: Sequence[int]) -> float:
    usages = map(resource.getrusage, processes)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _append(step: Step, log: Path) -> None:
    with unless_full(log, "the step is not logged"):
        log.parent.mkdir(parents=True, exist_ok=True)
        append_line(log, json.dumps(asdict(step)).encode())


def _run(command: Sequence[str]) -> int:
    """Run a command, forwarding the signals of this process, including earlier ones."""
    early: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            return  # the command has it, too; it would inherit an ignored signal
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    try:
        with handled(ENDING_SIGNALS, forward):
            started.append(subprocess.Popen(command))
            for number in early:
                started[0].send_signal(number)
            return started[0].wait()
    except OSError as error:
        raise ToolError(command, None, str(error)) from error
    finally:
        sys.stdout.flush()
