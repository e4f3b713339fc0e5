"""Starts commands quickly: imports them once, then forks for each.

Standard input has one JSON object a line: arguments, stdout and stderr (paths), max_bytes (a limit of
file size, or null). Each answer is one line: the number of the process, then one with its exit status
(minus the signal that ended it). What Python tidies at its end would take longer than the command.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any, NoReturn

import torch

import moses_bridge.tables.filter
import rescorer.runs.agreement
import rescorer.runs.train
import rescorer.tables.scored_table  # noqa: F401
from moses_bridge.cli import main as moses_bridge
from rescorer.cli import main as rescorer_command
from rescorer.contract.architectures import ARCHITECTURES, load

COMMANDS = {"moses-bridge": moses_bridge, "rescorer": rescorer_command}
for name in ARCHITECTURES:
    load(name)
torch.optim.Adam([torch.zeros(1)])  # the first optimiser imports a good deal more


def run(job: dict[str, Any]) -> NoReturn:
    """Be the command."""
    for descriptor, path in ((1, job["stdout"]), (2, job["stderr"])):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, descriptor)
    if job["max_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["max_bytes"], job["max_bytes"]))
    program, *arguments = job["arguments"]
    try:
        COMMANDS[program](arguments, prog_name=program)
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else end.code is not None)
    raise AssertionError("a command ends by itself")


for text in sys.stdin:
    job = json.loads(text)
    process = os.fork()
    if process == 0:
        run(job)
    print(process, flush=True)
    _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
