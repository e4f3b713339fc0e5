"""Commands in processes of their own, to be killed, and what they write when they are continued.

FAULT_POINTS says at how many random points each fault strikes: 2 by default, 50 under `make faults`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

N_POINTS = int(os.environ.get("FAULT_POINTS", "2"))
SERVER = Path(__file__).with_name("command_server.py")
KILLS: Counter[str] = Counter()  # by command
DIFFERENCES: Counter[str] = Counter()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if N_POINTS > 2:
        for command, n_kills in KILLS.items():
            found = f"{n_kills} kills, {DIFFERENCES[command]} differences"
            terminalreporter.write_line(f"{command}: {found}")
        terminalreporter.write_line(f"{KILLS.total()} kills in all")


class Commands:
    """Runs commands in processes of their own, one at a time.

    Args:
        folder: for what they print.
    """

    def __init__(self, folder: Path) -> None:
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        self._server = subprocess.Popen(
            [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(
        self,
        *arguments: object,
        stdout: Path | None = None,
        max_bytes: int | None = None,
        is_kept: bool = False,
    ) -> int:
        """Start one; its process number."""
        assert self._server.stdin is not None
        job = {
            "arguments": [str(argument) for argument in arguments],
            "stdout": str(stdout or self.stdout),
            "stderr": str(self.stderr),
            "max_bytes": max_bytes,
            "is_kept": is_kept,
        }
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        return int(self._answer())

    def wait(self) -> int:
        """Exit status of the one that was started."""
        return int(self._answer())

    def run(self, *arguments: object, max_bytes: int | None = None) -> int:
        """Start one and wait for it."""
        self.start(*arguments, max_bytes=max_bytes)
        return self.wait()

    def prepare(self, *arguments: object) -> None:
        """Run one in the server itself, so that all later ones find what was imported and compiled."""
        self.start(*arguments, is_kept=True)
        assert self.wait() == 0, self.stderr.read_text()

    def kill(self, process: int, number: signal.Signals = signal.SIGKILL) -> int:
        """Send the one that was started a signal, unless it has ended; its exit status."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
        return self.wait()

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def _answer(self) -> str:
        assert self._server.stdout is not None
        return self._server.stdout.readline()


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    server = Commands(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()


class Interrupted:
    """A command that is killed again and again, each time run again until it ends.

    Args:
        commands: where it runs.
        arguments: of the command, which writes into `folder / "out"` alone.
        folder: for the outputs; all runs have the same place, since some files name it.
        given: what that place has at the beginning; nothing where it is None.
    """

    def __init__(
        self,
        commands: Commands,
        arguments: Sequence[object],
        folder: Path,
        given: Path | None = None,
    ) -> None:
        self.commands, self.arguments, self.given = commands, arguments, given
        self.folder, self.out = folder, folder / "out"
        self.name = " ".join(map(str, arguments[:2]))
        folder.mkdir(parents=True, exist_ok=True)

    def begin(self) -> None:
        """Make the place as it is at the beginning."""
        if self.given is None:
            self.out.mkdir()
        else:
            shutil.copytree(self.given, self.out)

    def finish(self, name: str) -> Path:
        """Run it to the end; where its output is then."""
        assert self.commands.run(*self.arguments) == 0, self.commands.stderr.read_text()
        return self.out.rename(self.folder / name)

    def killed(self, seconds: float) -> bool:
        """Start it and kill it after so many seconds; whether it had not ended before."""
        process = self.commands.start(*self.arguments)
        time.sleep(seconds)
        status = self.commands.kill(process)
        assert status in (0, -signal.SIGKILL), self.commands.stderr.read_text()
        KILLS[self.name] += status != 0
        return status != 0

    def outputs(self, most_kills: int) -> Iterator[Path]:
        """Where the outputs are of runs that were killed so often in all, each run again until it ended.

        The first one has not been interrupted at all.
        """
        rng = random.Random(7)
        self.begin()
        if (
            self.arguments[0] == "rescorer"
        ):  # the server must not have used what PyTorch cannot fork
            self.finish("compiled")
        else:
            self.commands.prepare(*self.arguments)
            self.out.rename(self.folder / "compiled")
        self.begin()
        started = time.monotonic()
        first = self.finish("0")
        seconds = time.monotonic() - started
        yield first
        n_kills = n_chains = 0
        while n_kills < most_kills:
            n_chains += 1
            self.begin()
            while n_kills < most_kills and self.killed(seconds * rng.uniform(0.02, 0.9)):
                n_kills += 1
            yield self.finish(str(n_chains))

    def assert_same(self, first: object, other: object) -> None:
        """What two runs wrote is the same."""
        DIFFERENCES[self.name] += first != other
        assert first == other
