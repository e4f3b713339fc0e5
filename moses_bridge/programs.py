"""External programs: found, run, and their failure told with their own last words."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from moses_bridge.errors import ToolError
from moses_bridge.textio import StrPath, open_write

STDERR_TAIL_BYTES = 2000


def find_program(name: str) -> Path | None:
    """The program on the PATH, or None."""
    found = shutil.which(name)
    return Path(found) if found else None


def run_program(
    command: Sequence[str],
    stdin_path: StrPath | None = None,
    stdout_path: StrPath | None = None,
) -> bytes:
    """Run a program to its end.

    Args:
        command: program and arguments.
        stdin_path: its standard input; nothing if None.
        stdout_path: where its standard output goes, written whole or not at all.

    Returns:
        Its standard output; empty where it went to a file.

    Raises:
        ToolError: it could not be started or its exit status is not 0.
    """
    with contextlib.ExitStack() as stack:
        stdin = stack.enter_context(open(stdin_path, "rb")) if stdin_path else subprocess.DEVNULL
        try:
            result = subprocess.run(command, stdin=stdin, capture_output=True, check=False)
        except OSError as error:
            raise ToolError(command, None, str(error)) from error
    if result.returncode != 0:
        tail = result.stderr[-STDERR_TAIL_BYTES:].decode("utf-8", "replace")
        raise ToolError(command, result.returncode, tail)
    if stdout_path is None:
        return result.stdout
    with open_write(stdout_path) as stream:
        stream.write(result.stdout)
    return b""
