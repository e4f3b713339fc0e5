"""The command that plans an experiment."""

from __future__ import annotations

from pathlib import Path

import click

from moses_bridge.base.command import INPUT_FILE, OUTPUT_FILE, command


@command
@click.argument("experiments", nargs=-1, required=True, type=INPUT_FILE)
@click.option("--out", type=OUTPUT_FILE, help="File to write: the rules, a makefile.")
@click.option(
    "--set", "changes", multiple=True, help='TOML that replaces keys: "seeds.runs = [1, 2]".'
)
@click.option(
    "--dry-run", is_flag=True, help="Print what is made from what, in order; write nothing."
)
def plan(
    experiments: tuple[Path, ...], out: Path | None, changes: tuple[str, ...], dry_run: bool
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
