"""The command rescorer: a thin shell over one public function for each verb."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moses_bridge.command import VERSION, CommandGroup, jobs_option
from moses_bridge.config import load_config
from moses_bridge.textio import is_stream

if TYPE_CHECKING:
    from rescorer.model_scorer import Control, Device
    from rescorer.tables.report import ColumnFormat
    from rescorer.tries.scoring import Precision

READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
READABLE_OR_STANDARD = click.Path(exists=True, dir_okay=False, allow_dash=True)
DIRECTORY = click.Path(file_okay=False, path_type=Path)
MODEL_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
DEVICE = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True
)
PRECISION = click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Of the products; sums and softmax are float32 in either case.",
)
JOBS = jobs_option("Processors to use")


@click.group(cls=CommandGroup)
@VERSION
def main() -> None:
    """Neural scores for the phrase tables and n-best lists of Moses."""


@main.command()
@click.argument("table", type=READABLE)
@click.option("--out", type=DIRECTORY, required=True, help="Model directory to write.")
@click.option("--config", type=READABLE, help="Settings in TOML; an unknown key is an error.")
@click.option(
    "--arch",
    type=click.Choice(["encdec", "cslm"]),
    default="encdec",
    show_default=True,
    help="RNN Encoder-Decoder of phrase pairs, or a language model of target text.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted training.")
@DEVICE
@click.option("--seed", type=int, default=1, show_default=True)
def train(
    table: Path, out: Path, config: Path | None, arch: str, resume: bool, device: Device, seed: int
) -> None:
    """Train a network on the distinct pairs of a phrase table (or, --arch cslm, on target text).

    Example: rescorer train model/phrase-table.gz --out rnn
    """
    place = _training_device(device)
    report: Any
    if arch == "cslm":
        from rescorer.scorers.cslm.task import CslmTrainingConfig, train_cslm

        settings = load_config(CslmTrainingConfig, config)
        report = train_cslm(table, out, settings, resume, place, seed)
    else:
        from rescorer.scorers.encdec.task import EncDecTrainingConfig, train_encdec

        pair_settings = load_config(EncDecTrainingConfig, config)
        report = train_encdec(table, out, pair_settings, resume, place, seed)
    click.echo(f"{out}: {_in_words(report)}")


def _training_device(device: Device) -> str:
    from rescorer.model_scorer import choose_device

    return str(choose_device(device))


def _in_words(report: Any) -> str:
    """The numbers of a report, name by name."""
    values = dataclasses.asdict(report)
    return ", ".join(
        f"{name.replace('_', ' ')} " + (f"{value:.4g}" if isinstance(value, float) else f"{value}")
        for name, value in values.items()
    )


@main.command()
@click.argument("table", type=READABLE_OR_STANDARD)
@click.option(
    "--model",
    "models",
    type=MODEL_DIRECTORY,
    multiple=True,
    help="Model directory; several give a column each.",
)
@click.option(
    "--control",
    type=click.Choice(["random", "length"]),
    help="Instead of a model: noise, or minus the number of target words.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of --control random.")
@click.option("--out", required=True, help="Table to write, compressed by suffix.")
@click.option("--ini", type=READABLE, help="moses.ini of the table ...")
@click.option("--ini-out", type=click.Path(path_type=Path), help="... and the one to write.")
@click.option(
    "--columns",
    default="sum",
    show_default=True,
    help="Of sum, per-word, unknown-words, joined by commas.",
)
@click.option("--unknown-words", is_flag=True, help="As --columns with unknown-words at its end.")
@click.option(
    "--column-format",
    type=click.Choice(["prob", "log"]),
    default="prob",
    show_default=True,
    help="Probabilities as Moses wants them, or logarithms for a table that holds those.",
)
@click.option(
    "--replace", is_flag=True, help="Put them in the place of those that TABLE.json names."
)
@click.option(
    "--skip-bad",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Let at most N malformed rows go to OUT.bad.",
)
@click.option(
    "--unnormalized",
    is_flag=True,
    help="Leave out the softmax's denominator; for models trained with self_normalisation.",
)
@click.option(
    "--shard", metavar="I/N", help="Score the I-th of N parts; `rescorer merge` joins them."
)
@PRECISION
@DEVICE
@click.option("--resume", is_flag=True, help="Continue where an interrupted run stopped.")
@JOBS
def score(
    table: str,
    models: tuple[Path, ...],
    control: Control | None,
    seed: int,
    out: str,
    ini: Path | None,
    ini_out: Path | None,
    columns: str,
    unknown_words: bool,
    column_format: ColumnFormat,
    replace: bool,
    skip_bad: int,
    unnormalized: bool,
    shard: str | None,
    precision: Precision,
    device: Device,
    resume: bool,
    jobs: int,
) -> None:
    """Append scores to each row of a phrase table, and change moses.ini to fit.

    Example: rescorer score model/phrase-table.gz --model rnn --out rnn/phrase-table.gz
    --ini model/moses.ini --ini-out rnn/moses.ini
    """
    from rescorer.model_scorer import scorers_of, unnormalized_scorer
    from rescorer.scorers.encdec.agreement import table_agreement
    from rescorer.tables.column import ColumnOptions, parse_columns
    from rescorer.tables.rows import parse_shard
    from rescorer.tables.scored_table import score_table

    options = ColumnOptions(
        columns=parse_columns(columns, unknown_words),
        column_format=column_format,
        max_bad_rows=skip_bad,
        shard=parse_shard(shard) if shard else None,
        jobs=jobs,
    )
    if unnormalized:
        scorers = [unnormalized_scorer(model, precision, device) for model in models]
        for model in () if is_stream(table) else models:
            click.echo(f"{model}: {table_agreement(model, table, seed)}", err=True)
    else:
        scorers = scorers_of(models, control, seed, precision, device)
    for line in score_table(table, out, scorers, options, ini, ini_out, resume, replace):
        click.echo(line, err=True)


@main.command()
@click.argument("parts", type=READABLE, nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Table to write.")
@click.option("--ini", type=READABLE, help="moses.ini of the table that was scored ...")
@click.option("--ini-out", type=click.Path(path_type=Path), help="... and the one to write.")
def merge(parts: tuple[Path, ...], out: Path, ini: Path | None, ini_out: Path | None) -> None:
    """Join the parts that `rescorer score --shard` wrote into one table.

    Example: rescorer merge part1.gz part2.gz --out phrase-table.gz
    """
    from rescorer.tables.scored_table import merge_shards

    for line in merge_shards(parts, out, ini, ini_out):
        click.echo(line, err=True)


@main.command()
@click.argument("nbest", type=READABLE_OR_STANDARD)
@click.option("--source", type=READABLE, required=True, help="The text that was translated.")
@click.option("--model", type=MODEL_DIRECTORY, required=True, help="Model directory.")
@click.option("--feature", required=True, help="Its name: letters and digits.")
@click.option("--out", required=True, help="N-best list to write, compressed by suffix.")
@PRECISION
@DEVICE
@JOBS
def nbest(
    nbest: str,
    source: Path,
    model: Path,
    feature: str,
    out: str,
    precision: Precision,
    device: Device,
    jobs: int,
) -> None:
    """Append a named feature to each entry of an n-best list.

    Example: rescorer nbest dev.nbest --source dev.en --model cslm --feature CSLM0 --out new.nbest
    """
    from rescorer.model_scorer import scorer_of_model
    from rescorer.nbest import add_feature

    named = scorer_of_model(model, precision, device)
    add_feature(nbest, source, named.scorer, feature, out, jobs)


@main.command()
@click.argument("model", type=MODEL_DIRECTORY)
@PRECISION
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Threads.")
def serve(model: Path, precision: Precision, jobs: int) -> None:
    """Score n-grams for the search with a CSLM, over standard input and output.

    It is started by `moses-bridge decode` and `tuning tune`, once for each of their processes.

    Example: moses-bridge decode --neural-lm "CSLM0=rescorer serve cslm" ...
    """
    from rescorer.windows.service import serve as serve_model

    serve_model(model, precision, jobs)
