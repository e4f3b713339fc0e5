"""The command that plans an experiment."""

from __future__ import annotations

from typing import Annotated

import click

from moses_bridge.base.command import command
from moses_bridge.base.options import ARGUMENT, InputFile, OutputFile, option


@command
def plan(
    experiments: Annotated[tuple[InputFile, ...], ARGUMENT],
    out: Annotated[OutputFile | None, "File to write: the rules, a makefile."] = None,
    changes: Annotated[
        tuple[str, ...], option("--set"), 'TOML that replaces keys: "seeds.runs = [1, 2]".'
    ] = (),
    dry_run: Annotated[bool, "Print what is made from what, in order; write nothing."] = False,
) -> None:
    """Write an experiment as rules for make.

    EXPERIMENTS say what systems, networks and tables there are.

    Example: tuning plan tuning/experiments/small.toml --dry-run
    """
    from tuning.experiments.description import read_experiment
    from tuning.experiments.plan import plan_graph, write_plan

    if (out is None) != dry_run:
        raise click.UsageError("give one of --out and --dry-run")
    experiment = read_experiment(experiments, changes)
    if out is None:
        click.echo(plan_graph(experiment), nl=False)
    else:
        write_plan(experiment, out)


COMMANDS = (plan,)
