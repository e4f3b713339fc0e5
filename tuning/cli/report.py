"""Commands that draw and describe runs, and plan them: plot, report, plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click

from moses_bridge.base.command import command
from moses_bridge.base.machine import loading
from moses_bridge.base.options import ARGUMENT, Directory, InputFile, OutputFile, Positive, option
from tuning.report.page.inputs import ReportInputs


@command
def plot(
    runs: Annotated[tuple[Directory, ...], ARGUMENT],
    out: Annotated[OutputFile, "Picture to write, .svg or .png."],
) -> None:
    """Draw dev BLEU by iteration, and weights.

    RUNS are run directories of `tuning tune`.

    Example: tuning plot run1 run2 run3 --out tuning.svg
    """
    from tuning.report.pictures import plot_runs

    plot_runs(runs, out)


@dataclass(frozen=True, kw_only=True)
class ReportOptions(ReportInputs):
    """Options of `tuning report`.

    Attributes:
        out: Page to write, .html.
    """

    runs: Annotated[tuple[Directory, ...], ARGUMENT] = ()
    out: OutputFile
    tables: Annotated[tuple[InputFile, ...], option("--comparison")] = ()
    source: InputFile | None = None
    references: Annotated[tuple[InputFile, ...], option("--reference")] = ()
    models: Annotated[tuple[Directory, ...], option("--model")] = ()
    scored: tuple[InputFile, ...] = ()
    maps: Annotated[tuple[InputFile, ...], option("--map")] = ()
    steps: InputFile | None = None
    title: str = "Tuning report"
    n_points: Annotated[Positive, option("--points")] = 3000


@command
def report(options: ReportOptions) -> None:
    """Write one HTML page about runs and comparisons.

    RUNS are run directories of `tuning tune`.

    Example: tuning report --comparison cmp/table.json --source test.en --reference test.fr --out report.html
    """
    with loading():
        from tuning.report.page.write import write_report

    write_report(options, options.out)
    click.echo(f"report in {options.out}")


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
    from moses_bridge.base.textio import write_bytes
    from tuning.experiments.description import read_experiment
    from tuning.experiments.plan import plan_graph, plan_text

    if (out is None) != dry_run:
        raise click.UsageError("give one of --out and --dry-run")
    experiment = read_experiment(experiments, changes)
    if out is None:
        click.echo(plan_graph(experiment), nl=False)
    else:
        write_bytes(out, plan_text(experiment).encode())
