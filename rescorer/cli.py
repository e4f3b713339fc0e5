"""The command rescorer: a thin shell over one public function for each verb."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from moses_bridge.base.command import (
    JOBS,
    RAY,
    VERSION,
    WORKERS,
    CommandGroup,
    OutputPath,
    check_workers,
    choice_of,
    command_line,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import quiet
from moses_bridge.base.textio import is_stream
from moses_bridge.formats.nbest import check_feature_name
from moses_bridge.formats.ngram_scorer import serve_ngrams
from rescorer.contract.architectures import ARCHITECTURES
from rescorer.contract.batch import Side
from rescorer.contract.data import Reading
from rescorer.contract.parallel import let_waiting_threads_sleep
from rescorer.models.controls import Control
from rescorer.tables.column import ColumnFormat

if TYPE_CHECKING:
    from rescorer.contract.compute import Compute, Device, Precision
    from rescorer.contract.scorer import NamedScorer
    from rescorer.contract.training import TrainingSettings
    from rescorer.models.ensemble import Mean
    from rescorer.runs.expected_bleu.task import ExpectedBleuConfig
    from rescorer.views.generated_phrases import OutputFormat
    from rescorer.views.map_points import Kind
    from rescorer.views.maps import Colour

READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
READABLE_OR_STANDARD = click.Path(exists=True, dir_okay=False, allow_dash=True)
WRITABLE = OutputPath(path_type=Path)
WRITABLE_OR_STANDARD = OutputPath(readable=False, allow_dash=True)
DIRECTORY = OutputPath(file_okay=False, path_type=Path)
MODEL_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
RESUME = click.option("--resume", is_flag=True, help="Continue an interrupted training.")
SEED = click.option("--seed", type=int, default=1, show_default=True)
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
UNNORMALIZED = click.option(
    "--unnormalized",
    is_flag=True,
    help="Leave out the softmax's denominator; for models trained with self_normalisation.",
)
TRUST_CODE = click.option(
    "--trust-code",
    is_flag=True,
    help="Run the code that a model names as its architecture, where this is not rescorer's own.",
)
FORM = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)


@click.group(cls=CommandGroup)
@VERSION
def main() -> None:
    """Neural scores for the phrase tables and n-best lists of Moses."""
    let_waiting_threads_sleep()


def _training_settings(
    config: Path | None,
    arch: str,
    minutes: float | None,
    epochs: int | None,
    hidden_width: int | None,
    reading: Reading | None,
) -> TrainingSettings:
    """The settings of `rescorer train`."""
    from rescorer.contract.architectures import load

    options = {
        "loop.max_minutes": minutes,
        "loop.n_epochs": epochs,
        "model.hidden_width": hidden_width,
        "reading": reading,
    }
    settings: TrainingSettings = with_options(load_config(load(arch).settings, config), options)
    return settings


@main.command()
@click.argument("data", type=READABLE)
@click.option("--out", type=DIRECTORY, required=True, help="Model directory to write.")
@click.option(
    "--arch",
    default="encdec",
    show_default=True,
    help=f"What is trained: {', '.join(ARCHITECTURES)}; or your own, package.module:NAME (package.module: for "
    "NAME ARCHITECTURE), of a module that Python finds (PYTHONPATH).",
)
@click.option("--source", type=READABLE, help="Source text, where DATA is parallel target text.")
@click.option("--links", type=READABLE, help="Its word links, where the architecture needs them.")
@click.option(
    "--texts",
    type=(READABLE, READABLE),
    metavar="SOURCE TARGET",
    help="Texts whose words are counted for the shortlists; else those of the phrase pairs are.",
)
@click.option(
    "--cache",
    type=DIRECTORY,
    help="Keep the pairs of the table here; read them from here where they are kept already.",
)
@config_options(_training_settings)
@click.option("--minutes", type=float, help="At most so many; sets the key loop.max_minutes.")
@click.option("--epochs", type=int, help="Passes at most; sets the key loop.n_epochs.")
@click.option("--hidden-width", type=int, help="Sets the key model.hidden_width.")
@click.option(
    "--reading",
    type=click.Choice(get_args(Reading)),
    help="Learn p(source | target), or the last word of a sentence first; sets the key reading.",
)
@RESUME
@DEVICE
@SEED
def train(
    data: Path,
    out: Path,
    arch: str,
    source: Path | None,
    links: Path | None,
    texts: tuple[Path, Path] | None,
    cache: Path | None,
    config: Path | None,
    minutes: float | None,
    epochs: int | None,
    hidden_width: int | None,
    reading: Reading | None,
    resume: bool,
    device: Device,
    seed: int,
) -> None:
    """Train a network on the distinct pairs of a phrase table (or, --arch cslm, on target text).

    Without a limit of minutes or epochs it trains until the held-out loss stops falling. Several
    processes train together by torchrun --nproc-per-node N -m rescorer train ...

    Example: rescorer train model/phrase-table.gz --out rnn
    """
    from rescorer.contract.compute import choose_device
    from rescorer.contract.data import Data
    from rescorer.runs.train import train as run_training
    from rescorer.training.peers import peers_on

    settings = _training_settings(config, arch, minutes, epochs, hidden_width, reading)
    asked = Data(data, source, links, texts, cache)
    with peers_on(choose_device(device)) as (peers, own_device):
        if not peers.is_first:
            quiet()
        report = run_training(arch, asked, out, settings, resume, own_device, seed, peers)
    if peers.is_first:
        click.echo(f"{out}: {_in_words(report)}")


def _expected_bleu_settings(
    config: Path | None, minutes: float | None, epochs: int | None
) -> ExpectedBleuConfig:
    """The settings of `rescorer expected-bleu`."""
    from rescorer.runs.expected_bleu.task import ExpectedBleuConfig

    options = {"loop.max_minutes": minutes, "loop.n_epochs": epochs}
    return with_options(load_config(ExpectedBleuConfig, config), options)


@main.command()
@click.argument("model", type=MODEL_DIRECTORY)
@click.argument("nbest", type=READABLE)
@click.option("--source", type=READABLE, required=True, help="The text that was translated.")
@click.option(
    "--reference",
    "references",
    type=READABLE,
    multiple=True,
    required=True,
    help="Its translation; may be given several times.",
)
@click.option("--out", type=DIRECTORY, required=True, help="Model directory to write.")
@config_options(_expected_bleu_settings)
@click.option("--minutes", type=float, help="At most so many; sets the key loop.max_minutes.")
@click.option("--epochs", type=int, help="Passes at most; sets the key loop.n_epochs.")
@TRUST_CODE
@RESUME
@DEVICE
@SEED
def expected_bleu(
    model: Path,
    nbest: Path,
    source: Path,
    references: tuple[Path, ...],
    out: Path,
    config: Path | None,
    minutes: float | None,
    epochs: int | None,
    trust_code: bool,
    resume: bool,
    device: Device,
    seed: int,
) -> None:
    """Train a phrase model (encdec, cptm, word_pairs) on, for the BLEU that is expected on n-best lists.

    NBEST has the segmentation of each translation (-include-segmentation-in-n-best); the weights of the other
    features are those that it was made with.

    Example: rescorer expected-bleu cptm train.nbest.gz --source train.en --reference train.fr --out cptm-bleu
    """
    from rescorer.contract.compute import choose_device
    from rescorer.runs.expected_bleu.run import ListText, train_for_expected_bleu

    settings = _expected_bleu_settings(config, minutes, epochs)
    lists = ListText(nbest, source, references)
    place = choose_device(device)
    before, report = train_for_expected_bleu(
        model, lists, out, settings, resume, place, seed, trust_code
    )
    first = "" if before is None else f"held out loss before {before:.4g}, "
    click.echo(f"{out}: {first}{_in_words(report)}")


def _in_words(report: Any) -> str:
    """The numbers of a report, name by name."""
    values = dataclasses.asdict(report)
    return ", ".join(
        f"{name.replace('_', ' ')} " + (f"{value:.4g}" if isinstance(value, float) else f"{value}")
        for name, value in values.items()
        if value is not None
    )


def _tell_log_z(model: Path, unnormalized: bool) -> None:
    """Say on standard error what log Z is on held-out text, where raw scores stand for exact ones."""
    from rescorer.models.model_directory import log_z_of

    log_z = log_z_of(model)
    if log_z or unnormalized:
        click.echo(f"{model}: {log_z or 'log Z held out: not measured in its training'}", err=True)


@main.command()
@click.argument("table", type=READABLE_OR_STANDARD)
@click.option(
    "--model",
    "models",
    type=MODEL_DIRECTORY,
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
@click.option(
    "--out",
    type=WRITABLE_OR_STANDARD,
    required=True,
    help="Table to write, compressed by suffix.",
)
@click.option("--ini", type=READABLE, help="moses.ini of the table ...")
@click.option("--ini-out", type=WRITABLE, help="... and the one to write.")
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


@main.command()
@click.argument("parts", type=READABLE, nargs=-1, required=True)
@click.option("--out", type=WRITABLE, required=True, help="Table to write.")
@click.option("--ini", type=READABLE, help="moses.ini of the table that was scored ...")
@click.option("--ini-out", type=WRITABLE, help="... and the one to write.")
def merge(parts: tuple[Path, ...], out: Path, ini: Path | None, ini_out: Path | None) -> None:
    """Join the parts that `rescorer score --shard` wrote into one table.

    Example: rescorer merge part1.gz part2.gz --out phrase-table.gz
    """
    from rescorer.tables.scored_table import merge_shards

    for line in merge_shards(parts, out, ini, ini_out, command_line()):
        click.echo(line, err=True)


@main.command()
@click.argument("nbest", type=READABLE_OR_STANDARD)
@click.option("--source", type=READABLE, required=True, help="The text that was translated.")
@click.option(
    "--model",
    "models",
    type=MODEL_DIRECTORY,
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
@click.option(
    "--out",
    type=WRITABLE_OR_STANDARD,
    required=True,
    help="N-best list to write, compressed by suffix.",
)
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


@main.command()
@click.argument("model", type=MODEL_DIRECTORY)
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

    from rescorer.contract.compute import Compute
    from rescorer.models.model_directory import ngram_scorer_of_model

    torch.set_num_threads(jobs)
    compute = Compute(precision, device, unnormalized)
    scorer = ngram_scorer_of_model(model, compute, trust_code)
    _tell_log_z(model, unnormalized)
    serve_ngrams(scorer, sys.stdin.buffer, sys.stdout.buffer)


SIDE = click.option(
    "--side",
    type=choice_of(Side),
    default="source",
    show_default=True,
    help="Whose words; the column of the table whose phrases the network reads.",
)
N_BEST = click.option(
    "-n", "--n-best", type=click.IntRange(min=1), default=10, show_default=True, help="Of each."
)


@main.command()
@click.argument("model", type=MODEL_DIRECTORY)
@click.option("--word", "words", multiple=True, help="A word; may be given several times.")
@click.option("--phrase", "phrases", multiple=True, help="A phrase; needs --table.")
@click.option("--table", type=READABLE, help="Among whose phrases neighbours are sought.")
@SIDE
@N_BEST
@click.option(
    "--keep",
    type=DIRECTORY,
    help="Folder for the encoded phrases of the table, for the next time.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What is printed.",
)
@TRUST_CODE
@PRECISION
@DEVICE
def neighbors(
    model: Path,
    words: tuple[str, ...],
    phrases: tuple[str, ...],
    table: Path | None,
    side: Side,
    n_best: int,
    keep: Path | None,
    output: str,
    trust_code: bool,
    precision: Precision,
    device: Device,
) -> None:
    """Print the nearest words by their embeddings, and the nearest phrases by their summaries (cosine).

    Example: rescorer neighbors rnn --word house --phrase "of the" --table model/phrase-table.gz
    """
    from rescorer.contract.compute import Compute
    from rescorer.views.learned import Learned
    from rescorer.views.neighbors import phrase_neighbors, word_neighbors

    if not words and not phrases:
        raise ConfigError("nothing is asked for: name a --word or a --phrase")
    learned, found = Learned.load(model, trust_code), []
    if words:
        found += word_neighbors(learned, list(map(os.fsencode, words)), side, n_best)
    if phrases:
        if table is None:
            raise ConfigError("neighbours of a phrase are sought in a table: name it with --table")
        asked = list(map(os.fsencode, phrases))
        compute = Compute(precision, device)
        found += phrase_neighbors(learned, asked, table, side, n_best, keep, compute)
    for near in found if output == "text" else ():
        click.echo(str(near))
    if output == "json":
        click.echo(json.dumps([near.as_json for near in found], indent=1))


def _named_models(models: tuple[str, ...]) -> dict[str, Path]:
    """The directories of NAME=DIR, by name.

    Raises:
        ConfigError: one has no name or no directory, or a name stands twice.
    """
    named: dict[str, Path] = {}
    for model in models:
        name, equals, directory = model.partition("=")
        if not (name and equals and directory):
            raise ConfigError(f"--model {model!r}: write NAME=DIR, as in RNN=rnn")
        if name in named:
            raise ConfigError(f"--model {model!r}: the name {name!r} stands twice")
        named[name] = Path(directory)
    return named


@main.command()
@click.argument("table", type=READABLE)
@click.option(
    "--model", "models", multiple=True, required=True, metavar="NAME=DIR", help="A model."
)
@click.option("--min-words", type=int, help="Words of a source phrase at least.  [default: 4]")
@click.option("--min-targets", type=int, help="Its targets at least.  [default: 3]")
@click.option("--share", type=float, help="That is frequent, that is rare.  [default: 0.1]")
@click.option("--phrases", type=int, help="Drawn of each kind.  [default: 10]")
@click.option("-n", "--n-best", type=int, help="Targets shown of each.  [default: 3]")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the draw.")
@click.option(
    "--out",
    "outs",
    multiple=True,
    type=WRITABLE,
    help="File to write, .md or .json; without it Markdown is printed.",
)
@UNNORMALIZED
@TRUST_CODE
@PRECISION
@DEVICE
def preferences(
    table: Path,
    models: tuple[str, ...],
    min_words: int | None,
    min_targets: int | None,
    share: float | None,
    phrases: int | None,
    n_best: int | None,
    seed: int,
    outs: tuple[Path, ...],
    unnormalized: bool,
    trust_code: bool,
    precision: Precision,
    device: Device,
) -> None:
    """Draw long source phrases, frequent and rare, and show which targets the table and models prefer.

    Example: rescorer preferences model/phrase-table.gz --model RNN=rnn --out preferences.md
    """
    from rescorer.contract.compute import Compute
    from rescorer.views.preference_files import check_names, write_preferences
    from rescorer.views.preference_text import to_markdown
    from rescorer.views.preferences import PreferencesConfig
    from rescorer.views.preferences import preferences as draw

    check_names(outs)
    options = {
        "min_words": min_words,
        "min_targets": min_targets,
        "share": share,
        "n_phrases": phrases,
        "n_best": n_best,
    }
    config = with_options(PreferencesConfig(seed=seed), options)
    compute = Compute(precision, device, unnormalized)
    result = draw(table, _scorers(models, compute, trust_code), config)
    write_preferences(result, outs)
    if not outs:
        click.echo(to_markdown(result), nl=False)


def _scorers(models: tuple[str, ...], compute: Compute, trust_code: bool) -> list[NamedScorer]:
    """The scorers of NAME=DIR, with those names."""
    from rescorer.models.model_directory import scorer_of_model

    named = _named_models(models).items()
    return [
        dataclasses.replace(scorer_of_model(directory, compute, trust_code), name=name)
        for name, directory in named
    ]


@main.command("map")
@click.argument("model", type=MODEL_DIRECTORY)
@click.argument("table", type=READABLE)
@click.option("--out", type=DIRECTORY, required=True, help="Folder to write.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(["words", "phrases"]),
    multiple=True,
    help="Which map; without it those that the model has vectors for.",
)
@SIDE
@click.option("--words", type=int, help="Words on the map.  [default: 1000]")
@click.option("--phrases", type=int, help="Phrases on the map.  [default: 2000]")
@click.option(
    "--colour",
    type=click.Choice(["length", "frequency"]),
    default="length",
    show_default=True,
    help="What the colour of a phrase says.",
)
@click.option("--zooms", type=int, help="Parts that are drawn apart.  [default: 3]")
@click.option("--seed", type=int, default=1, show_default=True, help="Of draw and layout.")
@TRUST_CODE
@PRECISION
@DEVICE
def draw_map(
    model: Path,
    table: Path,
    out: Path,
    kinds: tuple[Kind, ...],
    side: Side,
    words: int | None,
    phrases: int | None,
    colour: Colour,
    zooms: int | None,
    seed: int,
    trust_code: bool,
    precision: Precision,
    device: Device,
) -> None:
    """Draw maps of words and phrases by t-SNE, and say how often neighbours belong together.

    Example: rescorer map rnn model/phrase-table.gz --out maps
    """
    from rescorer.contract.compute import Compute
    from rescorer.views.learned import Learned
    from rescorer.views.maps import MapConfig, draw_maps, kinds_of

    options = {"n_words": words, "n_phrases": phrases, "n_zooms": zooms}
    config = with_options(MapConfig(side=side, colour=colour, seed=seed), options)
    learned, compute = Learned.load(model, trust_code), Compute(precision, device)
    maps = draw_maps(learned, table, out, kinds or kinds_of(learned), config, compute)
    for made in maps:
        for row in made.purity:
            click.echo(f"{made.points.kind}: {row}")


BEAM = click.option(
    "--beam",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Hypotheses that are kept at each length.",
)
LENGTH_PENALTY = click.option(
    "--length-penalty",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="ALPHA of the score log p / (words with </s>)^ALPHA.",
)
MAX_WORDS = click.option(
    "--max-words", type=click.IntRange(min=1), default=100, show_default=True, help="Of a target."
)
NO_UNKNOWN = click.option("--no-unknown", is_flag=True, help="No <unk> among the words.")


@main.command()
@click.argument("model", type=MODEL_DIRECTORY)
@click.argument("phrases", type=READABLE_OR_STANDARD, default="-")
@click.option(
    "--n", type=click.IntRange(min=1), default=10, show_default=True, help="Targets of each."
)
@BEAM
@click.option("--sample", is_flag=True, help="Draw targets instead of searching for the best.")
@click.option(
    "--temperature",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Of draws; below 1 likely words are drawn more often.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of --sample."
)
@LENGTH_PENALTY
@MAX_WORDS
@NO_UNKNOWN
@click.option("--table", type=READABLE, help="Phrase table: tell whether a target stands in it.")
@FORM
@click.option(
    "--out",
    type=WRITABLE_OR_STANDARD,
    default="-",
    help="File to write, compressed by suffix.  [default: standard output]",
)
@TRUST_CODE
@DEVICE
def generate(
    model: Path,
    phrases: str,
    n: int,
    beam: int,
    sample: bool,
    temperature: float,
    seed: int,
    length_penalty: float,
    max_words: int,
    no_unknown: bool,
    table: Path | None,
    form: OutputFormat,
    out: str,
    trust_code: bool,
    device: Device,
) -> None:
    """Write the targets that a network prefers, or draws, for source phrases, with log-probabilities.

    PHRASES has one source phrase a line, or one target phrase for a model with reversed sides. A language
    model, which sees no source, continues the lines instead (one from right to left puts words before them): an
    empty one gives whole sentences.

    Example: rescorer generate rnn phrases.en --n 5 --table model/phrase-table.gz
    """
    from rescorer.contract.compute import Compute
    from rescorer.contract.target_generation import GenerationConfig
    from rescorer.models.model_directory import generator_of_model, reverses_sides
    from rescorer.views.generated_phrases import generate_phrases

    config = GenerationConfig(
        n=n,
        beam=beam,
        sample=sample,
        temperature=temperature,
        length_penalty=length_penalty,
        max_words=max_words,
        unknown_words=not no_unknown,
        seed=seed,
    )
    if table is not None and reverses_sides(model):
        raise ConfigError(f"{model} generates sources of target phrases: leave --table out")
    generator = generator_of_model(model, Compute(device=device), trust_code)
    generate_phrases(generator, phrases, config, out, form, table)


@main.command()
@click.argument("model", type=MODEL_DIRECTORY)
@click.argument("text", type=READABLE_OR_STANDARD)
@click.option(
    "--out",
    type=WRITABLE_OR_STANDARD,
    default="-",
    help="Translations to write.  [default: standard output]",
)
@click.option(
    "--nbest",
    type=WRITABLE_OR_STANDARD,
    help="N-best list to write, compressed by suffix: different translations.",
)
@click.option("--nbest-size", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--feature", default="NN0", show_default=True, help="Its name for log p.")
@BEAM
@LENGTH_PENALTY
@MAX_WORDS
@NO_UNKNOWN
@click.option("--lexicon", type=READABLE, help="lex.f2e of Moses's training, for <unk>.")
@TRUST_CODE
@DEVICE
def translate(
    model: Path,
    text: str,
    out: str,
    nbest: str | None,
    nbest_size: int,
    feature: str,
    beam: int,
    length_penalty: float,
    max_words: int,
    no_unknown: bool,
    lexicon: Path | None,
    trust_code: bool,
    device: Device,
) -> None:
    """Translate sentences with a network alone, without a phrase table.

    <unk> becomes the most attended source word where the network has an attention, or that word's
    translation in the lexicon. Without an attention it becomes a word of the lexicon, or stays.

    Example: rescorer translate rnn test.en --out test.rnn.fr --nbest test.nbest.gz --nbest-size 20
    """
    from rescorer.contract.compute import Compute
    from rescorer.contract.target_generation import GenerationConfig
    from rescorer.models.model_directory import translator_of_model
    from rescorer.models.unknown_words import NO_LEXICON, read_lexicon
    from rescorer.views.translation import NBestOutput
    from rescorer.views.translation import translate as run_translation

    config = GenerationConfig(
        n=nbest_size,
        beam=beam,
        length_penalty=length_penalty,
        max_words=max_words,
        unknown_words=not no_unknown,
    )
    generator = translator_of_model(model, Compute(device=device), trust_code)
    words = read_lexicon(lexicon, generator.shortlists.target) if lexicon else NO_LEXICON
    lists = NBestOutput(nbest, feature) if nbest else None
    n_unknown = run_translation(generator, text, config, out, lists, words)
    click.echo(f"{n_unknown} <unk> left in the translations", err=True)


@main.command()
@click.argument("models", type=click.Path(exists=True, path_type=Path), nargs=-1, required=True)
@click.argument("text", type=READABLE)
@click.option("--source", type=READABLE, help="Source text, where a model sees it.")
@click.option("--links", type=READABLE, help="Word links, where a model needs them.")
@FORM
@TRUST_CODE
@PRECISION
@DEVICE
def perplexity(
    models: tuple[Path, ...],
    text: Path,
    source: Path | None,
    links: Path | None,
    form: OutputFormat,
    trust_code: bool,
    precision: Precision,
    device: Device,
) -> None:
    """Perplexity of models on the same target text, a word with </s>, and without unknown words.

    MODELS are model directories, ARPA files and binary files of kenlm.

    Example: rescorer perplexity rnn_lm cslm model/lm.arpa.gz dev.fr
    """
    from rescorer.contract.compute import Compute
    from rescorer.contract.data import Data
    from rescorer.views.perplexity import load_text_model, perplexities

    compute = Compute(precision, device)
    loaded = [load_text_model(path, compute, trust_code) for path in models]
    report = perplexities(loaded, Data(text, source, links))
    click.echo(json.dumps(report.as_json(), indent=1) if form == "json" else str(report))


def _line_numbers(text: str | None) -> list[int]:
    """The numbers of 1,2,5.

    Raises:
        ConfigError: one is no whole number from 1.
    """
    parts = [] if text is None else text.split(",")
    for part in parts:
        if not (part.isascii() and part.isdigit() and int(part)):
            raise ConfigError(f"--lines {text!r}: write numbers from 1 with commas, as in 1,2,5")
    return [int(part) for part in parts]


@main.command()
@click.argument("model", type=MODEL_DIRECTORY)
@click.argument("source", type=READABLE)
@click.argument("target", type=READABLE)
@click.option(
    "--out",
    type=WRITABLE_OR_STANDARD,
    default="-",
    help="Word links to write.  [default: standard output]",
)
@click.option(
    "--matrix",
    type=WRITABLE_OR_STANDARD,
    help="All weights, JSON lines to write, compressed by suffix.",
)
@click.option("--pictures", type=DIRECTORY, help="Folder for pictures of the pairs of --lines.")
@click.option("--lines", metavar="N,N,...", help="Pairs to be drawn, counted from 1.")
@click.option("--links", type=READABLE, help="Links to compare with: alignment error rate.")
@click.option(
    "--min-weight",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="That a link needs.",
)
@TRUST_CODE
@DEVICE
def align(
    model: Path,
    source: Path,
    target: Path,
    out: str,
    matrix: str | None,
    pictures: Path | None,
    lines: str | None,
    links: Path | None,
    min_weight: float,
    trust_code: bool,
    device: Device,
) -> None:
    """Align the words of parallel text by the attention of a network.

    Each target word is linked to the source word that it looks at most; one that looks most at </s> has
    no link.

    Example: rescorer align rnnsearch dev.en dev.fr --out dev.links --pictures attention --lines 1,2,5
    """
    from rescorer.contract.compute import Compute
    from rescorer.views.alignment import (
        AttentionPictures,
        attention_reader_of_model,
        read_pairs,
    )
    from rescorer.views.alignment import align as align_pairs

    numbers = _line_numbers(lines)
    if bool(numbers) != (pictures is not None):
        raise ConfigError("pictures need both --pictures DIR and --lines")
    pairs = read_pairs(source, target, links)
    reader = attention_reader_of_model(model, Compute(device=device), trust_code)
    drawn = None if pictures is None else AttentionPictures(pictures, numbers)
    error = align_pairs(reader, pairs, out, matrix, drawn, min_weight)
    if error is not None:
        click.echo(f"{links}: {error}", err=True)
