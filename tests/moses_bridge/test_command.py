from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from moses_bridge.command import CommandGroup
from moses_bridge.errors import ConfigError, InputError

MOSES_BRIDGE = [
    sys.executable,
    "-c",
    "from moses_bridge.cli import main; main(prog_name='moses-bridge')",
]


@pytest.mark.parametrize(
    ("fault", "status", "printed"),
    [
        (InputError("t", 3, "x", "y"), 1, "prog: error: t:3: found x, expected y\n"),
        (ConfigError("no such key"), 1, "prog: error: no such key\n"),
        (OSError(errno.ENOSPC, "No space left", "out"), 1, "No space left: 'out'\n"),
        (
            PermissionError(errno.EACCES, "Permission denied", "out"),
            1,
            "Permission denied: 'out'\n",
        ),
        (KeyboardInterrupt(), 130, "prog: interrupted\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, ""),
        (SystemExit(7), 7, ""),
        (click.UsageError("wrong"), 2, "Error: wrong\n"),
    ],
)
def test_how_commands_end(fault: BaseException, status: int, printed: str) -> None:
    @click.group(cls=CommandGroup)
    def prog() -> None: ...

    @prog.command()
    def fail() -> None:
        raise fault

    result = CliRunner().invoke(prog, ["fail"], prog_name="prog")
    assert result.exit_code == status
    assert result.stderr.endswith(printed)
    assert bool(result.stderr) == bool(printed)
    assert "Traceback" not in result.output


def test_our_own_bugs_keep_their_traceback() -> None:
    @click.group(cls=CommandGroup)
    def prog() -> None: ...

    @prog.command()
    def fail() -> None:
        raise ZeroDivisionError

    result = CliRunner().invoke(prog, ["fail"])
    assert isinstance(result.exception, ZeroDivisionError)


def _take_interrupts() -> None:
    """A shell's background jobs ignore Ctrl-C, and what they start inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupted_process() -> None:
    command = [*MOSES_BRIDGE, "check", "-"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_take_interrupts,
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        # More than a pipe holds: when all is written, the process has begun to read.
        process.stdin.write(b"a ||| b ||| 1\n" * 50_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"moses-bridge: interrupted\n"


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"faulty\n" * 50_000)
    with subprocess.Popen(
        [*MOSES_BRIDGE, "check", str(table)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(str(table).encode() + b":1: found 1 column")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
