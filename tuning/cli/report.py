"""Commands that draw and describe runs, and plan them: plot, report, plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click

from moses_bridge.base.command import command
from moses_bridge.base.machine import loading
from moses_bridge.base.options import ARGUMENT, Directory, InputFile, OutputFile, Positive, option


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
class ReportOptions:
    """Options of `tuning report`.

    Attributes:
        runs: Run directories of `tuning tune`.
        out: Page to write, .html.
        comparisons: table.json of tuning compare; adds its runs. May be given several times.
        source: Tokenised test text whose translations are shown.
        references: Tokenised reference; may be given several times.
        models: Model directory with its training log; those used by the runs are found without it.
        scored: Phrase table with the column of a model; may be given several times.
        maps: Map written by `rescorer map`: words.json or phrases.json.
        steps: Log written by `moses-bridge step`.
        title: Heading of the page.
        points: Largest number of pairs to show from a scored table.
        seed: Seed of the random numbers.
    """

    runs: Annotated[tuple[Directory, ...], ARGUMENT] = ()
    out: OutputFile
    comparisons: Annotated[tuple[InputFile, ...], option("--comparison")] = ()
    source: InputFile | None = None
    references: Annotated[tuple[InputFile, ...], option("--reference")] = ()
    models: Annotated[tuple[Directory, ...], option("--model")] = ()
    scored: tuple[InputFile, ...] = ()
    maps: Annotated[tuple[InputFile, ...], option("--map")] = ()
    steps: InputFile | None = None
    title: str = "Tuning report"
    points: Positive = 3000
    seed: int = 1


@command
def report(options: ReportOptions) -> None:
    """Write one HTML page about runs and comparisons.

    RUNS are run directories of `tuning tune`.

    Example: tuning report --comparison cmp/table.json --source test.en --reference test.fr --out report.html
    """
    with loading():
        from tuning.report.page.contents import ReportInputs
        from tuning.report.page.write import write_report

    inputs = ReportInputs(
        runs=options.runs,
        tables=options.comparisons,
        source=options.source,
        references=options.references,
        models=options.models,
        scored=options.scored,
        maps=options.maps,
        steps=options.steps,
        title=options.title,
        n_points=options.points,
        seed=options.seed,
    )
    write_report(inputs, options.out)
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


COMMANDS = (plot, report)
PLANNING = (plan,)
