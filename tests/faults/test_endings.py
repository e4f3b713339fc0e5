"""A command that a signal ends leaves no process and no folder behind, whatever it had started."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.conftest import Commands

SECONDS = 60.0  # for what takes a moment
# Says where it works and that it has begun; both of its processes would go on for an hour.
SLOW = """\
sleep 3600 &
dirname "$1" > {begun}.new
mv {begun}.new {begun}
sleep 3600
"""
TEXT = ["a b c d e", "f g h i j"]


@dataclass(frozen=True)
class Work:
    """A command, and when it is in the middle of its work.

    Attributes:
        arguments: of the command, which writes below `out` alone.
        has_begun: whether what it starts runs.
        used: the folders that it uses besides.
    """

    arguments: list[object]
    out: Path
    has_begun: Callable[[], bool]
    used: Callable[[], list[Path]]


def slow_program(folder: Path) -> tuple[str, Path]:
    """A program that does not end, and the file that tells that it has begun."""
    script, begun = folder / "slow.sh", folder / "begun"
    script.write_text(SLOW.format(begun=begun))
    return f"sh {script}", begun


def rerank(folder: Path, *more: str) -> list[object]:
    """A reranking of lists of two sentences."""
    lists = [{"hypotheses": [{"text": each, "features": {"LM0": -1.0}}]} for each in TEXT]
    (folder / "list.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lists))
    (folder / "text").write_text("".join(f"{each}\n" for each in TEXT))
    arguments = ["tuning", "rerank", "--list", folder / "list.jsonl", "--list-format", "jsonl"]
    arguments += ["--source", folder / "text", "--reference", folder / "text"]
    return [*arguments, "--out", folder / "out" / "run", *more]


def with_program(folder: Path, arguments: list[object], begun: Path) -> Work:
    return Work(arguments, folder / "out", begun.exists, lambda: [Path(begun.read_text().strip())])


def feature(folder: Path) -> Work:
    program, begun = slow_program(folder)
    more = ("--nbest-feature", f"A0={program} {{nbest}} {{out}}")
    return with_program(folder, rerank(folder, *more), begun)


def metric(folder: Path) -> Work:
    program, begun = slow_program(folder)
    more = ("--metric", "column", "--metric-command", f"{program} {{hypotheses}} {{out}}")
    return with_program(folder, rerank(folder, *more), begun)


def values(folder: Path) -> Work:
    """A program that is asked; it has no place to work in."""
    program, begun = slow_program(folder)
    (folder / "table").write_text("a ||| b ||| 0.5\n")
    arguments = ["rescorer", "score", folder / "table", "--values", f"{program} {folder}/out/x"]
    return with_program(folder, [*arguments, "--out", folder / "out" / "new"], begun)


def aligner(folder: Path) -> Work:
    """Two workers of a library."""
    rng = random.Random(9)
    for language in ("en", "fr"):
        lines = (" ".join(f"w{rng.randrange(3000)}" for _ in range(20)) for _ in range(10_000))
        (folder / f"text.{language}").write_text("".join(f"{line}\n" for line in lines))
    out = folder / "out" / "model"
    arguments = ["moses-bridge", "build", "--corpus", folder / "text", "--source-language", "en"]
    arguments += ["--target-language", "fr", "--out", out, "--jobs", "2"]
    return Work(arguments, folder / "out", lambda: bool([*out.glob(".align*/target")]), lambda: [])


WORKS = {"feature": feature, "metric": metric, "values": values, "aligner": aligner}


def states() -> Iterator[tuple[int, int, str]]:
    """Each process with its parent and its state."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, parent, *_ = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(place.name), int(parent), state


def started_by(process: int) -> set[int]:
    """All processes that a process has started, or that these have started."""
    parents = {each: parent for each, parent, _ in states()}
    found: set[int] = set()
    while new := {each for each, parent in parents.items() if parent in found | {process}} - found:
        found |= new
    return found


def running(processes: set[int]) -> set[int]:
    return processes & {each for each, _, state in states() if state != "Z"}


def stop_workers(processes: set[int]) -> None:
    """Let those of pools finish no work: they end only where they are ended."""
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            if b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGSTOP)


def wait_for(is_true: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("kind", WORKS)
def test_nothing_is_left(
    kind: str, number: signal.Signals, commands: Commands, tmp_path: Path
) -> None:
    work = WORKS[kind](tmp_path)
    work.out.mkdir()
    process = commands.start(*work.arguments)
    wait_for(work.has_begun)
    wait_for(lambda: len(started_by(process)) >= 2)
    others, used = started_by(process), work.used()
    stop_workers(others)
    status = commands.kill(process, number)
    assert status == (130 if number == signal.SIGINT else -number), commands.stderr.read_text()
    wait_for(lambda: not running(others))  # at most a moment: Python's own helpers end after it
    assert [path for path in used if path != work.out and path.exists()] == []
    assert not [*work.out.glob("*")] or os.listdir(work.out) == ["model"]
    assert not [*work.out.glob("model/.*")]
