"""Two commands never write one file or into one directory; a lock ends with whoever holds it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from moses_bridge.base.errors import UserError
from moses_bridge.base.lock import held_by_command, held_directory, held_file
from moses_bridge.base.textio import remove_unfinished

Held = Callable[[Path], AbstractContextManager[None]]
HOLDER = """\
import os, sys, time
from pathlib import Path
from moses_bridge.base.lock import held_directory, held_file
with {0}(Path(sys.argv[1])):
    {1}
    print("held", pid, sep="\\n", flush=True)
    for _ in range(6000):
        time.sleep(0.1)  # a signal just before a long sleep would be acted on after it
"""


@pytest.fixture(params=[held_file, held_directory])
def held(request: pytest.FixtureRequest) -> Held:
    function: Held = request.param
    return function


def lock_file(held: Held, target: Path) -> Path:
    return target / ".lock" if held is held_directory else target.parent / f".{target.name}.lock"


def held_elsewhere(held: Held, target: Path, before: str = "pid = 0") -> subprocess.Popen[str]:
    """A process that holds a lock, and prints pid, of a process that it has started."""
    code = HOLDER.format(held.__name__, before)
    command = [sys.executable, "-c", code, str(target)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def wait_until_free(held: Held, target: Path) -> None:
    """A process lets a lock go that it has from its parent as soon as it runs, which may take a moment."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(UserError), held(target):
            return
        time.sleep(0.05)


def test_a_second_writer_is_refused_and_the_first_one_named(held: Held, tmp_path: Path) -> None:
    process = held_elsewhere(held, tmp_path / "out")
    try:
        with pytest.raises(UserError) as caught, held(tmp_path / "out"):
            raise AssertionError("two hold it")
        message = str(caught.value)
        assert (
            f"(process {process.pid} on {socket.gethostname()}: -c {tmp_path / 'out'})" in message
        )
        assert message.startswith(f"{tmp_path / 'out'}: another command writes there")
        assert "\n" not in message
        with held(tmp_path / "other"):
            pass
    finally:
        process.kill()
        process.communicate()


def test_a_lock_ends_with_its_process(held: Held, tmp_path: Path) -> None:
    """What the killed process left is taken over, and goes."""
    process = held_elsewhere(held, tmp_path / "out")
    process.kill()
    process.communicate()
    left = lock_file(held, tmp_path / "out")
    assert json.loads(left.read_bytes())["pid"] == process.pid
    with held(tmp_path / "out"):
        assert json.loads(left.read_bytes())["pid"] == os.getpid()
    assert not left.exists()


def test_one_process_is_refused_too(held: Held, tmp_path: Path) -> None:
    with held(tmp_path / "out"):
        with pytest.raises(UserError, match=f"process {os.getpid()} "), held(tmp_path / "out"):
            pass
        assert lock_file(held, tmp_path / "out").exists()
    with held(tmp_path / "out"):
        pass


def test_names_of_one_place_are_one_lock(held: Held, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with held(tmp_path / "link"), pytest.raises(UserError), held(tmp_path / "out"):
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left(held: Held, tmp_path: Path, fails: bool) -> None:
    """Not even directories that were made for nothing."""
    target = tmp_path / "a" / "b"
    try:
        with held(target):
            if fails:
                raise ValueError
    except ValueError:
        pass
    assert not lock_file(held, target).exists()
    if held is held_directory:
        assert [*tmp_path.iterdir()] == []


def test_directories_with_content_and_those_of_before_stay(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with held_directory(tmp_path / "empty"):
        pass
    with held_directory(tmp_path / "new"):
        (tmp_path / "new" / "file").write_bytes(b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "new"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["link", "dangling link", "text", "hard link", "folder", "pipe"])
def test_a_file_of_somebody_else_in_the_place_of_the_lock_is_left_as_it_is(
    held: Held, tmp_path: Path, kind: str
) -> None:
    """A folder with such a link may come from anywhere."""
    lock, other = lock_file(held, tmp_path / "out"), tmp_path / "config"
    lock.parent.mkdir(exist_ok=True)
    other.write_bytes(b"Host *\n")
    if kind == "link":
        lock.symlink_to(other)
    elif kind == "dangling link":
        lock.symlink_to(tmp_path / "new")
    elif kind == "text":
        lock.write_bytes(b"Host *\n")
    elif kind == "hard link":
        os.link(other, lock)
    elif kind == "folder":
        lock.mkdir()
    else:
        os.mkfifo(lock)
    found = "a link" if "link" in kind and kind[0] != "h" else "a file of somebody else"
    with (
        pytest.raises(UserError, match=rf"lock: found {found}, expected .* Remove it$"),
        held(tmp_path / "out"),
    ):
        raise AssertionError("it is held")
    assert os.path.lexists(lock)
    assert other.read_bytes() == b"Host *\n"
    assert not (tmp_path / "new").exists()
    assert kind != "text" or lock.read_bytes() == b"Host *\n"


def test_the_lock_of_a_killed_process_is_taken_over(held: Held, tmp_path: Path) -> None:
    lock = lock_file(held, tmp_path / "out")
    lock.parent.mkdir(exist_ok=True)
    holder = b'{"pid": 1, "host": "h", "command": "%s"}'
    for left in (b"", holder % b"rescorer score", holder % (b"x" * 2000)):  # a longer one too
        lock.write_bytes(left)
        with held(tmp_path / "out"):
            assert json.loads(lock.read_bytes())["pid"] == os.getpid()


def test_one_that_may_wait_goes_on_when_the_other_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, told = held_elsewhere(held_file, tmp_path / "out"), list[str]()

    def end_the_other(note: str) -> None:
        told.append(note)
        process.kill()

    monkeypatch.setattr("moses_bridge.base.lock.print_note", end_the_other)
    with held_file(tmp_path / "out", waits=True):
        assert process.wait() == -signal.SIGKILL
    process.communicate()
    (note,) = told
    assert f"(process {process.pid} on " in note and note.endswith("; waiting until it ends")


def test_what_a_command_holds_is_held_for_all_that_it_calls(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out"
    with held_by_command([path]):
        with held_file(path):
            assert lock_file(held_file, path).exists()
        assert lock_file(held_file, path).exists()
    assert not [*tmp_path.iterdir()]
    with held_file(path), pytest.raises(UserError), held_by_command([path]):
        raise AssertionError("two hold it")


def test_the_longest_names_can_be_locked(tmp_path: Path) -> None:
    with (
        held_file(tmp_path / ("a" * 255)),
        pytest.raises(UserError),
        held_file(tmp_path / ("a" * 255)),
    ):
        raise AssertionError("two hold it")


def test_a_signal_removes_the_lock(held: Held, tmp_path: Path) -> None:
    with held(tmp_path / "out"):
        remove_unfinished()
        assert not lock_file(held, tmp_path / "out").exists()


def test_a_forked_worker_does_not_keep_the_lock(held: Held, tmp_path: Path) -> None:
    """A worker may live on when its parent was killed."""
    process = held_elsewhere(held, tmp_path / "out", before="pid = os.fork() or time.sleep(600)")
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.kill()
    process.wait()
    try:
        wait_until_free(held, tmp_path / "out")
        with held(tmp_path / "out"):
            os.kill(worker, 0)  # it is alive
    finally:
        os.kill(worker, signal.SIGKILL)
        process.communicate()


def test_a_forked_worker_keeps_a_file_with_the_number_of_an_earlier_lock(
    held: Held, tmp_path: Path
) -> None:
    with held(tmp_path / "out"):
        pass
    with (tmp_path / "text").open("wb") as stream:
        worker = os.fork()
        if not worker:
            try:
                os.fstat(stream.fileno())
            except OSError:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(worker, 0)[1] == 0


def test_a_file_system_without_locks_is_told_of(
    held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with held(tmp_path / "out"):
        assert not lock_file(held, tmp_path / "out").exists()
    told = capsys.readouterr().err
    assert told.startswith(
        f"{tmp_path / 'out'}: this file system offers no locks (No locks available)"
    )
    assert told.count("\n") == 1


def test_other_errors_of_locks_are_errors(
    held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output"), held(tmp_path / "out"):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"{}", b"\xff"])
def test_a_holder_that_says_nothing_of_itself(tmp_path: Path, content: bytes) -> None:
    with held_file(tmp_path / "out"):
        (tmp_path / ".out.lock").write_bytes(content)
        with pytest.raises(UserError, match=r"writes there\. Wait"), held_file(tmp_path / "out"):
            pass


def test_a_lock_that_its_holder_removes_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening and the locking of the file its holder has ended."""
    flock, path = fcntl.flock, tmp_path / ".out.lock"
    calls = iter(range(9))

    def late(handle: int, how: int) -> None:
        if next(calls) == 0:
            path.unlink()
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with held_file(tmp_path / "out"):
        assert path.exists()
        with pytest.raises(UserError), held_file(tmp_path / "out"):
            pass
    assert next(calls) == 3


def test_the_sign_of_a_terminated_holder_goes(held: Held, tmp_path: Path) -> None:
    process = held_elsewhere(held, tmp_path / "out")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert not lock_file(held, tmp_path / "out").exists()
