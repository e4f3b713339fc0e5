from __future__ import annotations

import gzip
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from subprocess import DEVNULL
from types import FrameType
from typing import Any

import pytest

from moses_bridge.base import programs, progress
from moses_bridge.base.errors import InputError, ToolError, UserError
from moses_bridge.base.programs import (
    InteractiveProgram,
    find_program,
    run_program,
    running,
    worker_pool,
)

UPPER = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read().upper())"
FAIL = (
    "import sys; print('half'); print('no ' * 2000 + 'reason\\xe9', file=sys.stderr); sys.exit(3)"
)
LOUD = "import sys; sys.stderr.write('x' * 10**6); sys.stdout.write('y' * 10**6)"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_programs_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "lmplz"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("lmplz") == program
    assert find_program("moses") is None


def test_the_commands_of_this_python_are_found_after_those_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment need not be activated for what a command starts."""
    scripts = {"path": tmp_path / "path", "python": tmp_path / "python"}
    for word, folder in scripts.items():
        folder.mkdir()
        for name in {"path": ["both"], "python": ["both", "own"]}[word]:
            (folder / name).write_text(f"#!/bin/sh\necho {word}\n")
            (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{scripts['path']}:/usr/bin:/bin")
    monkeypatch.setattr("sysconfig.get_path", lambda kind: str(scripts["python"]))
    assert run_program(["own"]) == b"python\n"
    assert run_program(["both"]) == b"path\n"
    assert run_program(["sh", "-c", "own"]) == b"python\n"


def test_input_and_output(tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"abc\n"))
    assert run_program(python(UPPER)) == b""
    assert run_program(python(UPPER), tmp_path / "in.gz") == b"ABC\n"


def test_a_program_that_talks_much_on_both_streams() -> None:
    assert run_program(python(LOUD)) == b"y" * 10**6


def test_a_failure_tells_the_last_words() -> None:
    with pytest.raises(ToolError, match="failed with status 3") as error:
        run_program(python(FAIL))
    assert error.value.exit_code == 3
    assert error.value.stderr_tail.rstrip().endswith("reason\xe9")
    assert len(error.value.stderr_tail) <= 2000


def test_notes_of_a_program_that_succeeds_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(progress._VISIBLE, "progress", False)  # as by --quiet
    told = "loaded\\nnote: 3 of 4 are empty\\nfootnote: none"
    run_program(python(f"import sys; sys.stderr.write('{told}')"))
    assert capsys.readouterr().err == "note: 3 of 4 are empty\n"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be started") as error:
        run_program([str(tmp_path / "nothing"), "-f", "moses.ini"])
    assert error.value.exit_code is None
    with pytest.raises(InputError, match="nowhere"):
        run_program(python(UPPER), tmp_path / "nowhere")


def test_an_asked_program_answers_and_ends_with_its_input() -> None:
    program = InteractiveProgram(["sh", "-c", "cat; echo bye >&2; exit 3"])
    program.input.write(b"a question\n")
    program.input.flush()
    assert program.output.readline() == b"a question\n"
    assert program.status(0.0) is None
    assert program.end(60.0) == 3
    assert program.messages() == "bye"
    program.close()


def test_an_asked_program_that_does_not_end_is_killed() -> None:
    program = InteractiveProgram(["sleep", "60"])
    assert program.end(0.1) == -signal.SIGKILL
    program.close()


def test_children_of_a_killed_program_do_not_hold_up_its_end() -> None:
    """They have its standard streams."""
    program = InteractiveProgram(["sh", "-c", "cat; true"])
    program.kill()
    assert program.status() == -signal.SIGKILL


# Prints the numbers of both of its processes; neither ends by itself, and the second one ignores SIGTERM.
TWO = "sh -c 'trap \"\" TERM; echo $$; sleep 600' & echo $$; sleep 600"


def is_running(process: int) -> bool:
    """Whether a process runs; one that waits for its parent to notice its end does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for_end(*processes: int) -> None:
    """Signals have been sent, whose effect takes a moment."""
    end = time.monotonic() + 60
    while any(map(is_running, processes)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(map(is_running, processes))


def test_an_error_ends_a_program_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "GRACE_SECONDS", 0.2)
    with (
        pytest.raises(ValueError, match="mine"),
        running(["sh", "-c", TWO], DEVNULL, DEVNULL) as each,
    ):
        assert each.stdout is not None
        processes = [int(each.stdout.readline()) for _ in range(2)]
        assert all(map(is_running, processes))
        raise ValueError("mine")
    wait_for_end(*processes)


def test_what_a_failed_program_leaves_running_is_ended() -> None:
    with running(["sh", "-c", "sleep 600 >&- & echo $!; exit 3"], DEVNULL, DEVNULL) as each:
        assert each.stdout is not None
        child = int(each.stdout.read())
    assert each.returncode == 3
    wait_for_end(child)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_while_a_program_starts_ends_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until the program is known."""
    started: list[subprocess.Popen[bytes]] = []

    class Late(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(number)
            assert signal.getsignal(number) is not handler

    def handler(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Late)
    before = signal.signal(number, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_program(["sleep", "60"])
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
    assert started[0].wait() == -signal.SIGTERM


def test_an_ignored_signal_stays_ignored_for_programs() -> None:
    """As `nohup` begins a command."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_program(["sh", "-c", "kill -HUP $$; echo alive"]) == b"alive\n"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_program_ended_by_a_signal_is_told() -> None:
    with pytest.raises(
        ToolError, match=r"ended by SIGKILL, perhaps .*memory: it printed no message$"
    ):
        run_program(["sh", "-c", "kill -KILL $$"])
    with pytest.raises(ToolError, match=r"failed with status 3: it printed no message$"):
        run_program(["sh", "-c", "exit 3"])


def limit_of_descriptors(n_free: int) -> int:
    """The numbers of open files have gaps, which depend on the tests before."""
    copies = [os.dup(0) for _ in range(n_free + 1)]
    for each in copies:
        os.close(each)
    return copies[-1]


def test_a_pool_that_cannot_start_all_of_its_workers_leaves_none() -> None:
    """They would wait for work for ever, and the command for them; there is room for three."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        pytest.raises(OSError, match="Too many open files"),
        worker_pool(9, get_context("fork")) as pool,
    ):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit_of_descriptors(8), before[1]))
        try:
            pool.submit(os.getpid)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not multiprocessing.active_children()


def test_a_worker_that_dies_is_told() -> None:
    with (
        pytest.raises(UserError, match="a worker process was killed"),
        worker_pool(1, get_context("fork")) as pool,
    ):
        pool.submit(os._exit, 1).result()


def test_an_error_ends_workers_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), worker_pool(1, get_context("fork")) as pool:
        worker = pool.submit(os.getpid).result()
        pool.submit(time.sleep, 600)
        raise KeyboardInterrupt
    wait_for_end(worker)


def test_an_error_beside_another_pool_leaves_its_workers() -> None:
    with worker_pool(1, get_context("fork")) as outer:
        worker = outer.submit(os.getpid).result()
        with pytest.raises(ValueError, match="mine"), worker_pool(1, get_context("fork")) as pool:
            pool.submit(os.getpid).result()
            raise ValueError("mine")
        assert outer.submit(os.getpid).result() == worker
