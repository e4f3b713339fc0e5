"""Commands that write scores: score, merge, nbest, lines, serve."""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.command import command, command_line
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.machine import keep_freed_memory, loading
from moses_bridge.base.options import (
    ARGUMENT,
    STANDARD_STREAM,
    ClusterOptions,
    ExistingDirectory,
    FileOrStdin,
    FileOrStdout,
    InputFile,
    JobsOptions,
    Natural,
    OutputFile,
    Positive,
    option,
)
from moses_bridge.base.textio import is_stream
from moses_bridge.formats.nbest import check_feature_name
from rescorer.cli.options import ModelDirectory, ModelFileOrDirectory, RawComputeOptions
from rescorer.contract.choices import ColumnFormat, Control, Mean
from rescorer.models.pretrained.settings import PretrainedSettings, parse_name
from rescorer.tables.line_settings import LineSettings, LineTexts, ListSettings

if TYPE_CHECKING:
    from rescorer.contract.scorer import NamedScorer


def _print_log_z(model: Path, unnormalized: bool) -> None:
    """Print log Z on held-out text on standard error, if raw scores replace exact ones."""
    from rescorer.models.model_directory import record_of_model

    log_z = record_of_model(model).log_z
    if log_z or unnormalized:
        click.echo(f"{model}: {log_z or 'log Z held out: not measured in its training'}", err=True)


def _print_name(scorer: NamedScorer, column: str) -> None:
    """Print the name of a scorer of whole sentences, for which a language model is no approximation."""
    from rescorer.contract.architectures import AS_A_SENTENCE

    click.echo(f"{column}: {scorer.name.replace(AS_A_SENTENCE, 'whole sentences')}", err=True)


@dataclass(frozen=True, kw_only=True)
class ScorerOptions:
    """Sources of the columns of `rescorer score`.

    Attributes:
        models: Model directory, or a pretrained model (KIND:DIRECTORY, see docs/pretrained.md); may be given
            several times. Each model adds a column; with --mean they add one.
        mean: Add one column for all models: the mean of the log-probabilities of pairs, or of the
            probabilities of words.
        control: Add a column without information instead of a model's, to compare with.
        commands: Program that prints a natural logarithm for each phrase pair. Its column comes after those of
            the models. It is started at most --jobs times; docs/formats.md describes the protocol.
        with_links: Give word links to the programs of --values, too.
        factories: Python function, package.module:FACTORY, that returns a scorer. Its column comes after all
            others.
        seed: Seed of --control random.
    """

    models: Annotated[tuple[ModelDirectory, ...], option("--model")] = ()
    mean: Mean | None = None
    control: Control | None = None
    commands: Annotated[tuple[str, ...], option("--values", metavar="COMMAND")] = ()
    with_links: bool = False
    factories: Annotated[tuple[str, ...], option("--scorer", metavar="MODULE:FACTORY")] = ()
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class TableOptions(JobsOptions):
    """Files and columns of `rescorer score`.

    Attributes:
        table: Phrase table.
        out: Table to write; the suffix chooses the compression.
        ini: moses.ini that names TABLE.
        ini_out: moses.ini to write, which names the new table; needs --ini.
        columns: Columns to add, joined by commas: sum, per-word and over-targets of each model, and
            unknown-words.
        column_format: How a score is written: prob for the probabilities that Moses reads, log for a table of
            logarithms.
        replace: Replace the columns listed in TABLE.json instead of appending.
        skip_bad: Move up to N malformed rows to OUT.bad instead of stopping at the first, and give up to N
            rows that cannot be scored the least score of their source phrase.
        shard: Score only the I-th of N parts; `rescorer merge` joins them.
        resume: Continue an interrupted run.
    """

    table: Annotated[FileOrStdin, ARGUMENT]
    out: FileOrStdout
    ini: InputFile | None = None
    ini_out: OutputFile | None = None
    columns: str = "sum"
    column_format: ColumnFormat = "prob"
    replace: bool = False
    skip_bad: Annotated[Natural, option(metavar="N")] = 0
    shard: Annotated[str | None, option(metavar="I/N")] = None
    resume: bool = False


@command
def score(
    named: ScorerOptions,
    options: TableOptions,
    pretrained: PretrainedSettings,
    computing: RawComputeOptions,
    cluster: ClusterOptions,
) -> None:
    """Append scores to the rows of a phrase table.

    With --ini and --ini-out, the moses.ini of the new table is written too.

    Example: rescorer score model/phrase-table.gz --model rnn --out rnn/phrase-table.gz
    --ini model/moses.ini --ini-out rnn/moses.ini
    """
    with loading():
        from rescorer.models.scorer_choice import ScorerChoice
        from rescorer.tables.column import ColumnConfig, parse_columns
        from rescorer.tables.scored_table import score_table
        from rescorer.tables.source_table import parse_shard

    on_cluster = cluster.address is not None
    compute = (replace(computing, device="auto") if on_cluster else computing).compute
    choice = ScorerChoice(
        **asdict(named), compute=compute, trust_code=computing.trust_code, pretrained=pretrained
    )
    scorers = choice.named()
    table, out = str(options.table), str(options.out)
    if computing.unnormalized and not is_stream(table):
        from rescorer.runs.agreement import table_agreement

        for model in named.models:
            _print_log_z(model, computing.unnormalized)
            agreement = table_agreement(model, table, named.seed, compute, computing.trust_code)
            click.echo(f"{model}: {agreement}", err=True)
    config = ColumnConfig(
        parse_columns(options.columns),
        options.column_format,
        jobs=options.jobs,
        max_bad_rows=options.skip_bad,
        shard=parse_shard(options.shard) if options.shard else None,
    )
    with contextlib.ExitStack() as stack:
        executor = None
        if cluster.address is not None:
            from rescorer.tables.cluster_scoring import open_scoring, packed

            work = packed(choice, scorers)
            scoring = open_scoring(cluster.address, cluster.workers, computing.device, work)
            executor = stack.enter_context(scoring)
        lines = score_table(
            table,
            out,
            scorers,
            config,
            options.ini,
            options.ini_out,
            options.resume,
            options.replace,
            command_line(),
            executor,
        )
    if options.ini_out is not None:
        ini = shlex.quote(str(options.ini_out))
        texts = "--source DEV_SOURCE --reference DEV_REFERENCE"
        lines.append(f"next: tuning tune --ini {ini} {texts} --out RUN")
    for line in lines:
        click.echo(line, err=True)


@command
def merge(
    parts: Annotated[tuple[InputFile, ...], ARGUMENT],
    out: Annotated[OutputFile, "Table to write; the suffix chooses the compression."],
    ini: Annotated[InputFile | None, "moses.ini of the table that was scored."] = None,
    ini_out: Annotated[
        OutputFile | None, "moses.ini to write, which names the new table; needs --ini."
    ] = None,
) -> None:
    """Join the parts written by `rescorer score --shard`.

    Example: rescorer merge part1.gz part2.gz --out phrase-table.gz
    """
    from rescorer.tables.merging import merge_shards

    for line in merge_shards(parts, out, ini, ini_out, command_line()):
        click.echo(line, err=True)


@dataclass(frozen=True, kw_only=True)
class NBestOptions(JobsOptions):
    """Options of `rescorer nbest`.

    Attributes:
        nbest: N-best list.
        source: Source text of the n-best list.
        models: Model directory, or a pretrained model (KIND:DIRECTORY, see docs/pretrained.md); may be given
            several times. Several models are an ensemble and give one feature.
        mean: What an ensemble averages: the log-probabilities of sentences, or the probabilities of words.
        per_word: Divide the score by the number of words, including </s>.
        feature: Name of the feature: letters and digits.
        per_word_feature: Name of a second feature: the score divided by the number of words, including </s>.
        resume: Continue an interrupted run.
        out: N-best list to write; the suffix chooses the compression.
    """

    nbest: Annotated[FileOrStdin, ARGUMENT]
    source: InputFile
    models: Annotated[tuple[ModelDirectory, ...], option("--model")]
    mean: Mean = "sentence-log-probs"
    per_word: bool = False
    feature: str
    per_word_feature: str = ""
    resume: bool = False
    out: FileOrStdout


@command
def nbest(
    options: NBestOptions,
    settings: ListSettings,
    pretrained: PretrainedSettings,
    computing: RawComputeOptions,
) -> None:
    """Append a named feature to the entries of an n-best list.

    Example: rescorer nbest dev.nbest --source dev.en --model cslm --feature CSLM0 --out new.nbest
    """
    with loading():
        from rescorer.models.ensemble import ensemble, fingerprint
        from rescorer.models.scorer_choice import refuse_settings, scorer_of
        from rescorer.tables.nbest import add_feature

    models, feature, second = options.models, options.feature, options.per_word_feature
    check_feature_name(feature)
    if options.per_word and second:
        raise ConfigError("--per-word divides the one feature already: give only one of the two")
    compute, trust_code = computing.compute, computing.trust_code
    refuse_settings(models, pretrained)
    named = [scorer_of(model, compute, trust_code, pretrained) for model in models]
    if computing.unnormalized:
        for model in models:
            _print_log_z(model, computing.unnormalized)
    for each in named:
        _print_name(each, feature)
    scorer = ensemble([each.scorer for each in named], options.mean)
    nbest, out = str(options.nbest), str(options.out)
    files = (nbest, options.source, scorer, feature, out)
    more = (settings, fingerprint(named, options.mean), options.resume)
    add_feature(*files, options.jobs, second, options.per_word, *more)


@dataclass(frozen=True, kw_only=True)
class LinesOptions(JobsOptions):
    """Options of `rescorer lines`.

    Attributes:
        source: Source text; without TARGET, the text that language models score.
        target: Target text.
        models: Model directory, a pretrained model (KIND:DIRECTORY, see docs/pretrained.md), or an n-gram model
            (ARPA or KenLM's binary file); may be given several times. Each model has a column.
        links: Word alignment in Pharaoh format, for models that need it.
        out: File to write; the suffix chooses the compression. [default: standard output]
        resume: Continue an interrupted run.
    """

    source: Annotated[FileOrStdin, ARGUMENT]
    target: Annotated[FileOrStdin | None, ARGUMENT] = None
    models: Annotated[tuple[ModelFileOrDirectory, ...], option("--model")]
    links: FileOrStdin | None = None
    out: FileOrStdout = STANDARD_STREAM
    resume: bool = False


@command
def lines(
    options: LinesOptions,
    settings: LineSettings,
    pretrained: PretrainedSettings,
    computing: RawComputeOptions,
) -> None:
    """Print the natural log-probability of each line.

    SOURCE and TARGET have one sentence a line; language models score TARGET, or SOURCE alone.

    Example: rescorer lines train.en train.fr --model cslm --model rnn --per-word --format tsv --out train.tsv
    """
    with loading():
        from rescorer.models.model import Model
        from rescorer.models.scorer_choice import refuse_settings
        from rescorer.tables.lines import LineModel, score_lines

    refuse_settings(options.models, pretrained)
    compute, trust_code = computing.compute, computing.trust_code
    models = []
    for path in options.models:
        if computing.unnormalized:
            _print_log_z(path, computing.unnormalized)
        if path.is_file():
            models.append(LineModel(str(path), _scorer_of_ngrams(path), False))
        else:
            model = Model(path, compute, trust_code, pretrained if parse_name(path) else None)
            models.append(LineModel(str(path), model.named, model.reads_source))
        _print_name(models[-1].named, str(path))
    texts = LineTexts(options.source, options.target, options.links)
    score_lines(texts, options.out, models, settings, options.resume, options.jobs)


def _scorer_of_ngrams(path: Path) -> NamedScorer:
    from moses_bridge.base.provenance import file_digest
    from rescorer.contract.scorer import NamedScorer
    from rescorer.views.perplexity import read_ngram_model

    model = read_ngram_model(path)
    return NamedScorer(f"{model.order}-gram model", model, file_digest(path))


@command
def serve(
    model: Annotated[ExistingDirectory, ARGUMENT],
    computing: RawComputeOptions,
    jobs: Annotated[Positive, "Number of threads."] = 1,
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
        from rescorer.models.model_directory import ngram_scorer_of_model

    torch.set_num_threads(jobs)
    keep_freed_memory()
    scorer = ngram_scorer_of_model(model, computing.compute, computing.trust_code)
    _print_log_z(model, computing.unnormalized)
    serve_ngrams(scorer, sys.stdin.buffer, sys.stdout.buffer)
