"""External programs: finding, running and asking them, and errors with the end of their messages."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from moses_bridge.base.errors import ToolError
from moses_bridge.base.progress import print_note
from moses_bridge.base.textio import StrPath, open_read, open_write

STDERR_TAIL_BYTES = 2000
PATIENCE_SECONDS = 10.0  # for a program to end by itself, once its input is closed


def find_program(name: str) -> Path | None:
    """The program on the PATH, or None."""
    found = shutil.which(name)
    return Path(found) if found else None


def run_program(
    command: Sequence[str], stdin_path: StrPath | None = None, stdout_path: StrPath | None = None
) -> bytes:
    """Run a program to its end, and return its standard output.

    The file stdin_path is its standard input, decompressed by suffix; None is an empty one. The
    file stdout_path is its standard output, written whole or not at all; nothing is returned then.
    Of its standard error the last lines that begin with "note: " are shown.

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
        stdout = stack.enter_context(open_write(stdout_path)) if stdout_path else io.BytesIO()
        stderr = stack.enter_context(tempfile.TemporaryFile())
        try:
            process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr)
        except OSError as error:
            raise ToolError(command, None, str(error)) from error
        with process:
            assert process.stdout is not None
            shutil.copyfileobj(process.stdout, stdout)
        if process.returncode != 0:
            raise ToolError(command, process.returncode, error_tail(stderr))
        for line in error_tail(stderr).splitlines():
            if line.startswith("note: "):
                print_note(line)
        return stdout.getvalue() if isinstance(stdout, io.BytesIO) else b""


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
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
            )
        except OSError as error:
            self._stderr.close()
            raise ToolError(command, None, str(error)) from error
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
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return self._killed()

    def kill(self) -> None:
        """End it at once."""
        self._killed()
        self.output.close()  # children of a killed shell go on reading until they cannot write
        self.close()

    def close(self, patience: float = PATIENCE_SECONDS) -> None:
        """`end` it, and forget its messages."""
        self.end(patience)
        self._stderr.close()

    def _killed(self) -> int:
        self._process.kill()
        return self._process.wait()
