"""Other processes, external programs and pools of workers: started, asked, and ended with their children.

A program is in a process group of its own, so that it can be ended together with the programs that it starts.
An error and each signal that ends this process end all of them: nothing writes on after its command.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import IO

from moses_bridge.base.errors import ToolError, UserError
from moses_bridge.base.streams import mend_streams
from moses_bridge.base.text_lines import say
from moses_bridge.base.textio import StrPath, open_read

STDERR_TAIL_BYTES = 2000
PATIENCE_SECONDS = 10.0  # for a program to end by itself, once its input is closed
GRACE_SECONDS = 2.0  # from SIGTERM to SIGKILL
CHECK_SECONDS = 0.01
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Program = subprocess.Popen[bytes]
_RUNNING: set[Program] = set()
_STARTING = threading.RLock()  # held until a new program is among those running


def find_program(name: str) -> Path | None:
    """The program on the PATH, or None."""
    found = shutil.which(name)
    return Path(found) if found else None


def run_program(command: Sequence[str], stdin_path: StrPath | None = None) -> bytes:
    """Run a program to its end, and return its standard output.

    The file stdin_path is its standard input, decompressed by suffix; None is an empty one. Of its standard
    error the last lines that begin with "note: " are shown.

    Raises:
        InputError: the input cannot be read.
        ToolError: the program could not be started, or its exit status is not 0.
    """
    with contextlib.ExitStack() as stack:
        stdin: IO[bytes] | int = subprocess.DEVNULL
        if stdin_path:
            # The program inherits the descriptor.
            stdin = stack.enter_context(tempfile.TemporaryFile())
            with open_read(stdin_path) as text:
                shutil.copyfileobj(text, stdin)
            stdin.seek(0)
        stderr = stack.enter_context(tempfile.TemporaryFile())
        with running(command, stdin, stderr) as process:
            assert process.stdout is not None
            output = process.stdout.read()
        if process.returncode != 0:
            raise ToolError(command, process.returncode, error_tail(stderr))
        for line in error_tail(stderr).splitlines():
            if line.startswith("note: "):
                say(line)
        return output


@contextlib.contextmanager
def running(
    command: Sequence[str],
    stdin: IO[bytes] | int,
    stderr: IO[bytes] | int,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Program]:
    """A program whose standard output is read; the end of the `with` block waits for its end.

    If the block raises an error, the program is ended with its children. Input and messages are as in
    `subprocess.Popen`; without a folder or an environment it has those of this process.

    Raises:
        ToolError: it cannot be started.
    """
    process = _start(command, stdin, stderr, folder, environment)
    try:
        with process:
            try:
                yield process
            except BaseException:
                end_programs([process])
                raise
        if process.returncode != 0:
            end_programs([process])  # what it left running
    finally:
        _RUNNING.discard(process)


def _start(
    command: Sequence[str],
    stdin: IO[bytes] | int,
    stderr: IO[bytes] | int,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Program:
    """Start a program in a process group of its own; see `running`."""
    started: list[Program] = []
    try:
        with _signals_later(), _STARTING:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder,
                env=_with_own_commands(os.environ if environment is None else environment),
                process_group=0,
            )
            started.append(process)
            _RUNNING.add(process)
    except OSError as error:
        raise ToolError(command, None, str(error)) from error
    except BaseException:  # a signal that waited
        end_programs(started)
        raise
    return process


@contextlib.contextmanager
def handled(
    numbers: Iterable[int], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    """Let a function handle signals in a `with` block of the main thread; ignored ones stay ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    found = {number: signal.getsignal(number) for number in numbers if is_main}
    earlier = {number: each for number, each in found.items() if each not in (signal.SIG_IGN, None)}
    for number in earlier:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, each in earlier.items():
            signal.signal(number, each)


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Let the signals that end this process wait for the end of the `with` block."""
    arrived: list[int] = []
    try:
        with handled(ENDING_SIGNALS, lambda number, _: arrived.append(number)):
            yield
    finally:
        for late in arrived:
            signal.raise_signal(late)


def _with_own_commands(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment whose PATH ends with the commands of this Python; a user need not activate it."""
    folders = environment.get("PATH", os.defpath), sysconfig.get_path("scripts")
    return {**environment, "PATH": os.pathsep.join(folders)}


def end_programs(programs: Collection[Program] | None = None) -> None:
    """End these programs or all running ones, with their children, by SIGTERM and, if need be, SIGKILL."""
    has_lock = _STARTING.acquire(timeout=GRACE_SECONDS)  # another thread may be starting one
    try:
        ended = [*(_RUNNING if programs is None else programs)]
    finally:
        if has_lock:
            _STARTING.release()
    for program in ended:
        _signal(program, signal.SIGTERM)
    _wait_for(lambda: not any(map(_is_running, ended)))
    for program in ended:
        _signal(program, signal.SIGKILL)


def _signal(program: Program, number: int) -> bool:
    """Send a signal to a program and its children; whether there is any."""
    try:
        os.killpg(program.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _is_running(program: Program) -> bool:
    """Whether the program or one of its children is running."""
    program.poll()
    if program.returncode is None:  # `poll` does nothing where a signal interrupted its `wait`
        with contextlib.suppress(ChildProcessError):
            os.waitpid(program.pid, os.WNOHANG)
    return _signal(program, 0)


def _wait_for(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + GRACE_SECONDS
    while not is_done() and time.monotonic() < end:
        time.sleep(CHECK_SECONDS)


@contextlib.contextmanager
def worker_pool(
    n_processes: int,
    context: BaseContext,
    initializer: Callable[..., object] | None = None,
    arguments: tuple[object, ...] = (),
) -> Iterator[ProcessPoolExecutor]:
    """A pool of worker processes for a `with` block; on an error they are ended at once.

    A pool that cannot start all of its processes would otherwise leave some that wait for ever.

    Raises:
        UserError: a worker died.
    """
    others = set(multiprocessing.active_children())
    begin = partial(_begin_worker, initializer, arguments)
    with ProcessPoolExecutor(n_processes, context, begin) as pool:
        try:
            yield pool
        except BrokenProcessPool as error:
            reason = "a worker process was killed, perhaps for want of memory; use fewer jobs"
            raise UserError(reason) from error
        except BaseException:
            end_workers(set(multiprocessing.active_children()) - others)
            raise


def _begin_worker(initializer: Callable[..., object] | None, arguments: tuple[object, ...]) -> None:
    mend_streams()
    if initializer is not None:
        initializer(*arguments)


def end_workers(workers: Iterable[BaseProcess]) -> None:
    """End worker processes, by SIGTERM and, where that is not enough, SIGKILL."""
    workers = [*workers]
    for worker in workers:
        worker.terminate()
    _wait_for(lambda: not any(worker.is_alive() for worker in workers))
    for worker in workers:
        worker.kill()


def error_tail(stderr: IO[bytes]) -> str:
    """The end of a program's messages in a file, as text."""
    stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - STDERR_TAIL_BYTES))
    return stderr.read().decode("utf-8", "replace")


class InteractiveProgram:
    """A running program that reads questions on its standard input and writes answers.

    The program ends when its input is closed; pid is the number of its process.

    Raises:
        ToolError: it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        try:
            self._process = _start(command, subprocess.PIPE, self._stderr)
        except ToolError:
            self._stderr.close()
            raise
        assert self._process.stdin is not None and self._process.stdout is not None
        self.input: IO[bytes] = self._process.stdin
        self.output: IO[bytes] = self._process.stdout
        self.pid = self._process.pid

    def status(self, patience: float = PATIENCE_SECONDS) -> int | None:
        """Its exit status, after waiting for some seconds; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        return self._process.poll()

    def messages(self) -> str:
        """The end of its standard error."""
        return error_tail(self._stderr).strip()

    def close_input(self) -> None:
        """Let it end; no more questions."""
        with contextlib.suppress(OSError):
            self.input.close()

    def end(self, patience: float = PATIENCE_SECONDS) -> int:
        """Close its input and output, wait, kill it if that takes long; return its exit status."""
        self.close_input()
        self.output.close()
        try:
            status = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            status = self._killed()
        _RUNNING.discard(self._process)
        return status

    def kill(self) -> None:
        """End it and its children at once."""
        self._killed()
        self.close()

    def close(self, patience: float = PATIENCE_SECONDS) -> None:
        """`end` it, and forget its messages."""
        self.end(patience)
        self._stderr.close()

    def _killed(self) -> int:
        _signal(self._process, signal.SIGKILL)
        return self._process.wait()
