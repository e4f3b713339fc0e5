"""Commands that write scores: score, merge, nbest, serve."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from moses_bridge.base.command import (
    EXISTING_DIRECTORY,
    FILE_OR_STDIN,
    FILE_OR_STDOUT,
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
from moses_bridge.base.memory import keep_freed_memory, loading
from moses_bridge.base.textio import is_stream
from moses_bridge.formats.nbest import check_feature_name
from rescorer.cli.options import (
    DEVICE,
    MODEL_DIRECTORY,
    PRECISION,
    TRUST_CODE,
    UNNORMALIZED,
    pretrained_options,
    pretrained_settings,
)
from rescorer.contract.choices import ColumnFormat, Control, Device, Mean, Precision


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
    type=MODEL_DIRECTORY,
    multiple=True,
    help="Model directory, or a pretrained model (hf:DIRECTORY, hf-lm:DIRECTORY, ct2:DIRECTORY); may be "
    "given several times. Each model adds a column; with --mean they add one.",
)
@click.option(
    "--mean",
    type=choice_of(Mean),
    help="Add one column for all models: the mean of the log-probabilities of pairs, or of the "
    "probabilities of words.",
)
@click.option(
    "--control",
    type=choice_of(Control),
    help="Add a column without information instead of a model's, to compare with.",
)
@click.option(
    "--values",
    "commands",
    metavar="COMMAND",
    multiple=True,
    help="Program that prints a natural logarithm for each phrase pair. Its column comes "
    "after those of the "
    "models. It is started at most --jobs times; docs/formats.md describes the protocol.",
)
@click.option(
    "--with-links", is_flag=True, help="Give word links to the programs of --values, too."
)
@click.option(
    "--scorer",
    "factories",
    metavar="MODULE:FACTORY",
    multiple=True,
    help="Python function, package.module:FACTORY, that returns a scorer. Its column comes "
    "after all others.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of --control random.")
@click.option(
    "--out",
    type=FILE_OR_STDOUT,
    required=True,
    help="Table to write; the suffix chooses the compression.",
)
@click.option("--ini", type=INPUT_FILE, help="moses.ini that names TABLE.")
@click.option(
    "--ini-out",
    type=OUTPUT_FILE,
    help="moses.ini to write, which names the new table; needs --ini.",
)
@click.option(
    "--columns",
    default="sum",
    show_default=True,
    help="Columns to add, joined by commas: sum, per-word and over-targets of each model, and "
    "unknown-words.",
)
@click.option(
    "--column-format",
    type=choice_of(ColumnFormat),
    default="prob",
    show_default=True,
    help="How a score is written: prob for the probabilities that Moses reads, log for a "
    "table of logarithms.",
)
@click.option(
    "--replace", is_flag=True, help="Replace the columns listed in TABLE.json instead of appending."
)
@click.option(
    "--skip-bad",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Move up to N malformed rows to OUT.bad instead of stopping at the first.",
)
@pretrained_options
@UNNORMALIZED
@TRUST_CODE
@click.option(
    "--shard", metavar="I/N", help="Score only the I-th of N parts; `rescorer merge` joins them."
)
@RAY
@WORKERS
@PRECISION
@DEVICE
@click.option("--resume", is_flag=True, help="Continue an interrupted run.")
@JOBS
def score(
    table: Path,
    models: tuple[Path, ...],
    mean: Mean | None,
    control: Control | None,
    commands: tuple[str, ...],
    with_links: bool,
    factories: tuple[str, ...],
    seed: int,
    out: Path,
    ini: Path | None,
    ini_out: Path | None,
    columns: str,
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
    """Append scores to the rows of a phrase table.

    With --ini and --ini-out, the moses.ini of the new table is written too.

    Example: rescorer score model/phrase-table.gz --model rnn --out rnn/phrase-table.gz
    --ini model/moses.ini --ini-out rnn/moses.ini
    """
    with loading():
        from rescorer.contract.compute import Compute
        from rescorer.models.scorer_choice import ScorerChoice
        from rescorer.tables.column import ColumnConfig, parse_columns
        from rescorer.tables.scored_table import score_table
        from rescorer.tables.source_table import parse_shard

    check_workers(address, workers)
    compute = Compute(precision, device if address is None else "auto", unnormalized)
    others = (commands, with_links, factories)
    choice = ScorerChoice(
        models, mean, control, seed, compute, *others, trust_code, pretrained_settings()
    )
    scorers = choice.named()
    if unnormalized and not is_stream(table):
        from rescorer.runs.agreement import table_agreement

        for model in models:
            _tell_log_z(model, unnormalized)
            agreement = table_agreement(model, str(table), seed, compute, trust_code)
            click.echo(f"{model}: {agreement}", err=True)
    config = ColumnConfig(
        parse_columns(columns),
        column_format,
        jobs=jobs,
        max_bad_rows=skip_bad,
        shard=parse_shard(shard) if shard else None,
    )
    with contextlib.ExitStack() as stack:
        executor = None
        if address is not None:
            from rescorer.tables.cluster_scoring import open_scoring, packed

            scoring = open_scoring(address, workers, device, packed(choice, scorers))
            executor = stack.enter_context(scoring)
        lines = score_table(
            str(table),
            str(out),
            scorers,
            config,
            ini,
            ini_out,
            resume,
            replace,
            command_line(),
            executor,
        )
    for line in lines:
        click.echo(line, err=True)


@command
@click.argument("parts", type=INPUT_FILE, nargs=-1, required=True)
@click.option(
    "--out",
    type=OUTPUT_FILE,
    required=True,
    help="Table to write; the suffix chooses the compression.",
)
@click.option("--ini", type=INPUT_FILE, help="moses.ini of the table that was scored.")
@click.option(
    "--ini-out",
    type=OUTPUT_FILE,
    help="moses.ini to write, which names the new table; needs --ini.",
)
def merge(parts: tuple[Path, ...], out: Path, ini: Path | None, ini_out: Path | None) -> None:
    """Join the parts written by `rescorer score --shard`.

    Example: rescorer merge part1.gz part2.gz --out phrase-table.gz
    """
    from rescorer.tables.merging import merge_shards

    for line in merge_shards(parts, out, ini, ini_out, command_line()):
        click.echo(line, err=True)


@command
@click.argument("nbest", type=FILE_OR_STDIN)
@click.option("--source", type=INPUT_FILE, required=True, help="Source text of the n-best list.")
@click.option(
    "--model",
    "models",
    type=MODEL_DIRECTORY,
    multiple=True,
    required=True,
    help="Model directory, or a pretrained model (hf:DIRECTORY, hf-lm:DIRECTORY, ct2:DIRECTORY); may be "
    "given several times. Several models are an ensemble and give one feature.",
)
@click.option(
    "--mean",
    type=choice_of(Mean),
    default="sentence-log-probs",
    show_default=True,
    help="What an ensemble averages: the log-probabilities of sentences, or the probabilities "
    "of words.",
)
@click.option(
    "--per-word", is_flag=True, help="Divide the score by the number of words, including </s>."
)
@click.option("--feature", required=True, help="Name of the feature: letters and digits.")
@click.option(
    "--per-word-feature",
    default="",
    help="Name of a second feature: the score divided by the number of words, including </s>.",
)
@click.option(
    "--out",
    type=FILE_OR_STDOUT,
    required=True,
    help="N-best list to write; the suffix chooses the compression.",
)
@pretrained_options
@UNNORMALIZED
@TRUST_CODE
@PRECISION
@DEVICE
@JOBS
def nbest(
    nbest: Path,
    source: Path,
    models: tuple[Path, ...],
    mean: Mean,
    per_word: bool,
    feature: str,
    per_word_feature: str,
    out: Path,
    unnormalized: bool,
    trust_code: bool,
    precision: Precision,
    device: Device,
    jobs: int,
) -> None:
    """Append a named feature to the entries of an n-best list.

    Example: rescorer nbest dev.nbest --source dev.en --model cslm --feature CSLM0 --out new.nbest
    """
    with loading():
        from rescorer.contract.compute import Compute
        from rescorer.models.ensemble import ensemble
        from rescorer.models.scorer_choice import refuse_settings, scorer_of
        from rescorer.tables.nbest import add_feature

    check_feature_name(feature)
    if per_word and per_word_feature:
        raise ConfigError("--per-word divides the one feature already: give only one of the two")
    compute = Compute(precision, device, unnormalized)
    settings = pretrained_settings()
    refuse_settings(models, settings)
    named = [scorer_of(model, compute, trust_code, settings) for model in models]
    if unnormalized:
        for model in models:
            _tell_log_z(model, unnormalized)
    for each in named:
        click.echo(f"{feature}: {each.name}", err=True)
    scorer = ensemble([each.scorer for each in named], mean)
    add_feature(str(nbest), source, scorer, feature, str(out), jobs, per_word_feature, per_word)


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@UNNORMALIZED
@TRUST_CODE
@PRECISION
@DEVICE
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of threads."
)
def serve(
    model: Path,
    unnormalized: bool,
    trust_code: bool,
    precision: Precision,
    device: Device,
    jobs: int,
) -> None:
    """Serve a CSLM or an NNJM to the search.

    Asked for n-grams on standard input, it answers with their scores on standard output. For a model trained
    with self_normalisation, the score leaves out the denominator and subtracts the mean of log Z, which is
    fast.

    `moses-bridge decode` and `tuning tune` start one server for each of their processes.

    Example: moses-bridge decode --neural-lm "CSLM0=rescorer serve cslm" ...
    """
    with loading():
        import torch

        from moses_bridge.formats.ngram_scorer import serve_ngrams
        from rescorer.contract.compute import Compute
        from rescorer.models.model_directory import ngram_scorer_of_model

    torch.set_num_threads(jobs)
    keep_freed_memory()
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
