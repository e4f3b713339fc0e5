"""Commands that write scores: score, merge, nbest, serve."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.command import (
    EXISTING_DIRECTORY,
    FILE_OR_STDIN,
    INPUT_FILE,
    JOBS,
    OUTPUT_FILE,
    RAY,
    WORKERS,
    check_workers,
    choice_of,
    command,
    command_line,
)
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.textio import is_stream
from moses_bridge.formats.nbest import check_feature_name
from rescorer.cli.options import DEVICE, PRECISION, TRUST_CODE, UNNORMALIZED
from rescorer.models.controls import Control
from rescorer.tables.column import ColumnFormat

if TYPE_CHECKING:
    from rescorer.contract.compute import Device, Precision
    from rescorer.models.ensemble import Mean


def _tell_log_z(model: Path, unnormalized: bool) -> None:
    """Say on standard error what log Z is on held-out text, where raw scores stand for exact ones."""
    from rescorer.models.model_directory import log_z_of

    log_z = log_z_of(model)
    if log_z or unnormalized:
        click.echo(f"{model}: {log_z or 'log Z held out: not measured in its training'}", err=True)


@command
@click.argument("table", type=FILE_OR_STDIN)
@click.option(
    "--model",
    "models",
    type=EXISTING_DIRECTORY,
    multiple=True,
    help="Model directory; several give a column each, or one with --mean.",
)
@click.option(
    "--mean",
    type=click.Choice(["sentence-log-probs", "word-probs"]),
    help="One column of several models: the mean of log-probabilities of pairs, or of probabilities of words.",
)
@click.option(
    "--control",
    type=choice_of(Control),
    help="Instead of a model: noise, or minus the number of target words.",
)
@click.option(
    "--values",
    "commands",
    metavar="COMMAND",
    multiple=True,
    help="Program that prints a number for each phrase pair, a natural logarithm: a column after those of the "
    "models; started --jobs times at most. Protocol: docs/formats.md.",
)
@click.option("--with-links", is_flag=True, help="Give the programs of --values word links too.")
@click.option(
    "--scorer",
    "factories",
    metavar="MODULE:FACTORY",
    multiple=True,
    help="A Python function (package.module:FACTORY) that returns a scorer: a column after all others.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of --control random.")
@click.option("--out", required=True, help="Table to write, compressed by suffix.")
@click.option("--ini", type=INPUT_FILE, help="moses.ini of the table ...")
@click.option("--ini-out", type=OUTPUT_FILE, help="... and the one to write.")
@click.option(
    "--columns",
    default="sum",
    show_default=True,
    help="Forms of the score: sum, per-word, over-targets; and unknown-words. Joined by commas.",
)
@click.option("--unknown-words", is_flag=True, help="As --columns with unknown-words at its end.")
@click.option(
    "--column-format",
    type=choice_of(ColumnFormat),
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
@UNNORMALIZED
@TRUST_CODE
@click.option(
    "--shard", metavar="I/N", help="Score the I-th of N parts; `rescorer merge` joins them."
)
@RAY
@WORKERS
@PRECISION
@DEVICE
@click.option("--resume", is_flag=True, help="Continue where an interrupted run stopped.")
@JOBS
def score(
    table: str,
    models: tuple[Path, ...],
    mean: Mean | None,
    control: Control | None,
    commands: tuple[str, ...],
    with_links: bool,
    factories: tuple[str, ...],
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
    trust_code: bool,
    shard: str | None,
    address: str | None,
    workers: int | None,
    precision: Precision,
    device: Device,
    resume: bool,
    jobs: int,
) -> None:
    """Append scores to each row of a phrase table, and change moses.ini to fit.

    Example: rescorer score model/phrase-table.gz --model rnn --out rnn/phrase-table.gz
    --ini model/moses.ini --ini-out rnn/moses.ini
    """
    from rescorer.contract.compute import Compute
    from rescorer.models.asked_scorers import AskedScorers
    from rescorer.runs.agreement import table_agreement
    from rescorer.tables.cluster_scoring import open_scoring, packed
    from rescorer.tables.column import ColumnConfig, parse_columns
    from rescorer.tables.rows import parse_shard
    from rescorer.tables.scored_table import score_table

    check_workers(address, workers)
    compute = Compute(precision, device if address is None else "auto", unnormalized)
    others = (commands, with_links, factories)
    asked = AskedScorers(models, mean, control, seed, compute, *others, trust_code)
    scorers = asked.named()
    if unnormalized and not is_stream(table):
        for model in models:
            _tell_log_z(model, unnormalized)
            agreement = table_agreement(model, table, seed, compute, trust_code)
            click.echo(f"{model}: {agreement}", err=True)
    config = ColumnConfig(
        parse_columns(columns, unknown_words),
        column_format,
        jobs=jobs,
        max_bad_rows=skip_bad,
        shard=parse_shard(shard) if shard else None,
    )
    with contextlib.ExitStack() as stack:
        elsewhere = None
        if address is not None:
            scoring = open_scoring(address, workers, device, packed(asked, scorers))
            elsewhere = stack.enter_context(scoring)
        lines = score_table(
            table,
            out,
            scorers,
            config,
            ini,
            ini_out,
            resume,
            replace,
            command_line(),
            elsewhere,
        )
    for line in lines:
        click.echo(line, err=True)


@command
@click.argument("parts", type=INPUT_FILE, nargs=-1, required=True)
@click.option("--out", type=OUTPUT_FILE, required=True, help="Table to write.")
@click.option("--ini", type=INPUT_FILE, help="moses.ini of the table that was scored ...")
@click.option("--ini-out", type=OUTPUT_FILE, help="... and the one to write.")
def merge(parts: tuple[Path, ...], out: Path, ini: Path | None, ini_out: Path | None) -> None:
    """Join the parts that `rescorer score --shard` wrote into one table.

    Example: rescorer merge part1.gz part2.gz --out phrase-table.gz
    """
    from rescorer.tables.scored_table import merge_shards

    for line in merge_shards(parts, out, ini, ini_out, command_line()):
        click.echo(line, err=True)


@command
@click.argument("nbest", type=FILE_OR_STDIN)
@click.option("--source", type=INPUT_FILE, required=True, help="The text that was translated.")
@click.option(
    "--model",
    "models",
    type=EXISTING_DIRECTORY,
    multiple=True,
    required=True,
    help="Model directory; several are an ensemble, one feature.",
)
@click.option(
    "--mean",
    type=click.Choice(["sentence-log-probs", "word-probs"]),
    default="sentence-log-probs",
    show_default=True,
    help="Of an ensemble: of log-probabilities of sentences, or of probabilities of words.",
)
@click.option("--per-word", is_flag=True, help="Divide by the number of words, </s> included.")
@click.option("--feature", required=True, help="Its name: letters and digits.")
@click.option(
    "--per-word-feature",
    default="",
    help="Name of a second feature: the same value by the number of words, </s> included.",
)
@click.option("--out", required=True, help="N-best list to write, compressed by suffix.")
@UNNORMALIZED
@TRUST_CODE
@PRECISION
@DEVICE
@JOBS
def nbest(
    nbest: str,
    source: Path,
    models: tuple[Path, ...],
    mean: Mean,
    per_word: bool,
    feature: str,
    per_word_feature: str,
    out: str,
    unnormalized: bool,
    trust_code: bool,
    precision: Precision,
    device: Device,
    jobs: int,
) -> None:
    """Append a named feature to each entry of an n-best list.

    Example: rescorer nbest dev.nbest --source dev.en --model cslm --feature CSLM0 --out new.nbest
    """
    from rescorer.contract.compute import Compute
    from rescorer.models.ensemble import ensemble
    from rescorer.models.model_directory import scorer_of_model
    from rescorer.tables.nbest import add_feature

    check_feature_name(feature)
    if per_word and per_word_feature:
        raise ConfigError("--per-word divides the one feature already: leave one of both out")
    compute = Compute(precision, device, unnormalized)
    scorers = [scorer_of_model(model, compute, trust_code).scorer for model in models]
    if unnormalized:
        for model in models:
            _tell_log_z(model, unnormalized)
    scorer = ensemble(scorers, mean, per_word)
    add_feature(nbest, source, scorer, feature, out, jobs, per_word_feature)


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@UNNORMALIZED
@TRUST_CODE
@PRECISION
@DEVICE
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Threads.")
def serve(
    model: Path,
    unnormalized: bool,
    trust_code: bool,
    precision: Precision,
    device: Device,
    jobs: int,
) -> None:
    """Score n-grams for the search with a CSLM or an NNJM, over standard input and output.

    What the search goes by is quick: of a model trained with self_normalisation it is the score without the
    denominator, less the mean of log Z.

    It is started by `moses-bridge decode` and `tuning tune`, once for each of their processes.

    Example: moses-bridge decode --neural-lm "CSLM0=rescorer serve cslm" ...
    """
    import torch

    from moses_bridge.formats.ngram_scorer import serve_ngrams
    from rescorer.contract.compute import Compute
    from rescorer.models.model_directory import ngram_scorer_of_model

    torch.set_num_threads(jobs)
    compute = Compute(precision, device, unnormalized)
    scorer = ngram_scorer_of_model(model, compute, trust_code)
    _tell_log_z(model, unnormalized)
    serve_ngrams(scorer, sys.stdin.buffer, sys.stdout.buffer)


COMMANDS = (
    score,
    merge,
    nbest,
    serve,
)
