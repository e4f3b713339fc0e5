"""What the commands of tuning share: kinds of paths, options, and how a command is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from moses_bridge.base.command import INPUT_FILE, choice_of
from tuning.metrics.by_name import MetricName
from tuning.optimisers.by_name import OptimizerName

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
    type=choice_of(OptimizerName),
    help="How weights are found; sets the key optimizer.",
)
METRIC = click.option(
    "--metric",
    type=choice_of(MetricName),
    help="What weights are tuned for; sets the key metric.",
)
METRIC_COMMAND = click.option(
    "--metric-command",
    help="Command of the metric column: {hypotheses}, {source} and {reference} become paths, and it writes a "
    "number for each line to {out}; sets the key metric_command.",
)
NBEST_SIZE = click.option(
    "--nbest-size",
    type=click.IntRange(min=1),
    help="Distinct translations of a sentence in an n-best list; sets the key nbest_size.",
)
SEED = click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the random numbers."
)


def run_commands_option(key: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --run-commands.

    Args:
        key: the key of the settings that it sets, "" for none.
    """
    text = "Run the commands named in the weights.json of a run"
    return click.option(
        "--run-commands", is_flag=True, help=f"{text}; sets the key {key}." if key else f"{text}."
    )
