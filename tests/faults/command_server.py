"""Starts commands quickly: imports them once, then forks for each.

Standard input has one JSON object a line: arguments, stdout and stderr (paths), max_bytes (a limit of
file size, or null), is_kept (whether this process itself is the command, and has what it compiled).
None shows progress, which it would on a busy machine alone.
Each answer is one line: the number of the process, then one with its exit status (minus the signal
that ended it). What Python tidies at its end would take longer than the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

Programs = dict[str, Callable[..., object]]


def loaded() -> dict[str, Callable[..., object]]:
    """The commands, with what they import when they run."""
    import torch

    import moses_bridge.tables.filter
    import rescorer.runs.agreement
    import rescorer.runs.train
    import rescorer.tables.scored_table  # noqa: F401
    from moses_bridge.cli import main as moses_bridge
    from rescorer.cli import main as rescorer_command
    from rescorer.contract.architectures import ARCHITECTURES, load
    from tuning.cli import main as tuning

    for name in ARCHITECTURES:
        load(name)
    with contextlib.suppress(ImportError):  # maps, where their packages are installed
        for name in ("matplotlib.backends.backend_agg", "openTSNE", "rescorer.views.maps"):
            import_module(name)
    torch.optim.Adam([torch.zeros(1)])  # the first optimiser imports a good deal more
    return {"moses-bridge": moses_bridge, "rescorer": rescorer_command, "tuning": tuning}


def run(commands: Programs, job: dict[str, Any]) -> NoReturn:
    """Be the command."""
    redirect(job["stdout"], job["stderr"])
    if job["max_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["max_bytes"], job["max_bytes"]))
    os._exit(status_of(commands, job["arguments"]))


def run_here(commands: Programs, job: dict[str, Any]) -> int:
    """Run the command in this process; its exit status."""
    kept = [os.dup(1), os.dup(2)]
    redirect(job["stdout"], job["stderr"])
    status = status_of(commands, job["arguments"])
    for descriptor, own in zip((1, 2), kept, strict=True):
        os.dup2(own, descriptor)
        os.close(own)
    return status


def redirect(stdout: str, stderr: str) -> None:
    """Print into files from now on."""
    for descriptor, path in ((1, stdout), (2, stderr)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, descriptor)
        os.close(file)


def status_of(commands: Programs, words: list[str]) -> int:
    """Run a command; its exit status."""
    program, *arguments = words
    try:
        commands[program](["--quiet", *arguments], prog_name=program)
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    raise AssertionError("a command ends by itself")


def serve() -> None:
    """Run what standard input names, one after the other."""
    commands = loaded()
    for text in sys.stdin:
        job = json.loads(text)
        if job["is_kept"]:
            print(os.getpid(), flush=True)
            print(run_here(commands, job), flush=True)
            continue
        process = os.fork()
        if process == 0:
            run(commands, job)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":  # what a command starts anew imports this file too
    serve()
