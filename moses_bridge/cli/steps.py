"""Commands for experiments: config, step, steps."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import click

from moses_bridge.base.command import command
from moses_bridge.base.options import ARGUMENT, FileOrStdin, LogFile, OutputDirectory


@command
def config_command(
    experiments: Annotated[tuple[FileOrStdin, ...], ARGUMENT],
    out: Annotated[OutputDirectory, "Directory for the files."],
) -> None:
    """Split experiment files into one settings file per command.

    Keys of a later file override those of the earlier ones. A file whose content stays the same is not
    touched.

    \b
    Example:
      moses-bridge config tuning/experiments/tiny.toml --out build/config
    """
    from moses_bridge.base.experiment import split_experiment

    split_experiment(experiments, out)


@command
def step(
    command: Annotated[tuple[str, ...], click.UNPROCESSED, ARGUMENT],
    log: Annotated[LogFile, "Log to append to, in JSON lines; created if it does not exist."],
    name: Annotated[str | None, "Name of the step in the log.  [default: the command line]"] = None,
) -> None:
    """Run a command and log its time and memory.

    The exit status is that of COMMAND.

    \b
    Example:
    moses-bridge step --log steps.jsonl --name model -- rescorer train table.gz --out rnn
    """
    from moses_bridge.base.steps import run_step

    sys.exit(run_step(command, log, name or shlex.join(command)))


step.context_settings["ignore_unknown_options"] = True


@command
def steps(log: Annotated[FileOrStdin, ARGUMENT]) -> None:
    """Print the time and memory of logged steps.

    The memory is that of the largest process of a step.

    \b
    Example:
    moses-bridge steps build/table1/steps.jsonl
    """
    from moses_bridge.base.steps import read_steps, step_lines

    for line in step_lines(read_steps(log)):
        click.echo(line)
