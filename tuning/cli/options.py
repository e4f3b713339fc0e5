"""What the commands of tuning share: kinds of paths, options, and how a command is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from moses_bridge.base.command import CommandGroup, OutputPath
from tuning.optimisers.by_name import OPTIMIZER_NAMES

INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT_FILE = OutputPath(dir_okay=False, path_type=Path)
OUTPUT_DIRECTORY = OutputPath(file_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)  # that is read: what it lacks is said there
SOURCE = click.option("--source", type=INPUT_FILE, required=True, help="Tokenised source text.")
REFERENCE = click.option(
    "--reference",
    "references",
    type=INPUT_FILE,
    required=True,
    multiple=True,
    help="Tokenised reference; may be given several times.",
)
OPTIMIZER = click.option(
    "--optimizer",
    type=click.Choice(OPTIMIZER_NAMES),
    help="How weights are found; sets the key optimizer.",
)
NBEST_SIZE = click.option(
    "--nbest-size",
    type=click.IntRange(min=1),
    help="Distinct translations of a sentence in an n-best list; sets the key nbest_size.",
)
SEED = click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the random numbers."
)


def command(function: Callable[..., Any]) -> click.Command:
    """Make a command of the group: its name is the function's, its help the docstring."""
    return click.command(cls=CommandGroup.command_class)(function)


def run_commands_option(key: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --run-commands.

    Args:
        key: the key of the settings that it sets, "" for none.
    """
    text = "Run the commands named in the weights.json of a run"
    return click.option(
        "--run-commands", is_flag=True, help=f"{text}; sets the key {key}." if key else f"{text}."
    )
