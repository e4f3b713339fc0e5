"""Commands around experiments: config, step, steps."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from moses_bridge.base.command import (
    FILE_OR_STDIN,
    FILE_OR_STDOUT,
    OUTPUT_DIRECTORY,
    Command,
    command,
)


@click.command("config", cls=Command)
@click.argument("experiments", type=FILE_OR_STDIN, nargs=-1, required=True)
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for the files.")
def config_command(experiments: tuple[Path, ...], out: Path) -> None:
    """Split experiment files into one settings file per command.

    Keys of a later file override those of the earlier ones. A file whose content stays the same is not
    touched.

    \b
    Example:
      moses-bridge config tuning/experiments/tiny.toml --out build/config
    """
    from moses_bridge.base.experiment import split_experiment

    split_experiment(experiments, out)


@click.command(cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--log",
    type=FILE_OR_STDOUT,
    required=True,
    help="Log to append to, in JSON lines; created if it does not exist.",
)
@click.option("--name", help="Name of the step in the log.  [default: the command line]")
def step(command: tuple[str, ...], log: Path, name: str | None) -> None:
    """Run a command and log its time and memory.

    The exit status is that of COMMAND.

    \b
    Example:
    moses-bridge step --log steps.jsonl --name model -- rescorer train table.gz --out rnn
    """
    from moses_bridge.base.steps import run_step

    sys.exit(run_step(command, log, name or shlex.join(command)))


@command
@click.argument("log", type=FILE_OR_STDIN)
def steps(log: Path) -> None:
    """Print the time and memory of logged steps.

    The memory is that of the largest process of a step.

    \b
    Example:
    moses-bridge steps build/table1/steps.jsonl
    """
    from moses_bridge.base.steps import read_steps, step_lines

    for line in step_lines(read_steps(log)):
        click.echo(line)


COMMANDS = (
    config_command,
    step,
    steps,
)
