"""Commands that draw and describe runs: plot, report."""

from __future__ import annotations

from pathlib import Path

import click

from moses_bridge.base.command import DIRECTORY, INPUT_FILE, OUTPUT_FILE, command
from moses_bridge.base.memory import loading
from tuning.cli.options import SEED


@command
@click.argument("runs", nargs=-1, required=True, type=DIRECTORY)
@click.option("--out", type=OUTPUT_FILE, required=True, help="Picture to write, .svg or .png.")
def plot(runs: tuple[Path, ...], out: Path) -> None:
    """Draw dev BLEU by iteration, and weights.

    RUNS are run directories of `tuning tune`.

    Example: tuning plot run1 run2 run3 --out tuning.svg
    """
    from tuning.report.pictures import plot_runs

    plot_runs(runs, out)


@command
@click.argument("runs", nargs=-1, type=DIRECTORY)
@click.option("--out", type=OUTPUT_FILE, required=True, help="Page to write, .html.")
@click.option(
    "--comparison",
    "comparisons",
    type=INPUT_FILE,
    multiple=True,
    help="table.json of tuning compare; adds its runs. May be given several times.",
)
@click.option("--source", type=INPUT_FILE, help="Tokenised test text whose translations are shown.")
@click.option(
    "--reference",
    "references",
    type=INPUT_FILE,
    multiple=True,
    help="Tokenised reference; may be given several times.",
)
@click.option(
    "--model",
    "models",
    type=DIRECTORY,
    multiple=True,
    help="Model directory with its training log; those used by the runs are found without it.",
)
@click.option(
    "--scored",
    type=INPUT_FILE,
    multiple=True,
    help="Phrase table with the column of a model; may be given several times.",
)
@click.option(
    "--map",
    "maps",
    type=INPUT_FILE,
    multiple=True,
    help="Map written by `rescorer map`: words.json or phrases.json.",
)
@click.option("--steps", type=INPUT_FILE, help="Log written by `moses-bridge step`.")
@click.option("--title", default="Tuning report", show_default=True, help="Heading of the page.")
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=3000,
    show_default=True,
    help="Largest number of pairs shown of a scored table.",
)
@SEED
def report(
    runs: tuple[Path, ...],
    out: Path,
    comparisons: tuple[Path, ...],
    source: Path | None,
    references: tuple[Path, ...],
    models: tuple[Path, ...],
    scored: tuple[Path, ...],
    maps: tuple[Path, ...],
    steps: Path | None,
    title: str,
    points: int,
    seed: int,
) -> None:
    """Write one HTML page about runs and comparisons.

    RUNS are run directories of `tuning tune`.

    Example: tuning report --comparison cmp/table.json --source test.en --reference test.fr --out report.html
    """
    with loading():
        from tuning.report.page.contents import ReportInputs
        from tuning.report.page.write import write_report

    inputs = ReportInputs(
        runs=runs,
        tables=comparisons,
        source=source,
        references=references,
        models=models,
        scored=scored,
        maps=maps,
        steps=steps,
        title=title,
        n_points=points,
        seed=seed,
    )
    write_report(inputs, out)
    click.echo(f"report in {out}")


COMMANDS = (plot, report)
