"""The command moses-bridge: a thin shell over one public function per verb."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.choices import DecoderKind, Origin, Smoothing
from moses_bridge.base.command import JOBS, VERSION, CommandGroup, choice_of, config_options
from moses_bridge.base.config import load_config, with_options

if TYPE_CHECKING:
    from moses_bridge.builtin.build import BuildConfig
    from moses_bridge.corpus.parallel_corpus import CorpusConfig, CorpusReport
    from moses_bridge.corpus.selection import SelectConfig
    from moses_bridge.decoding.decoder import DecoderConfig
    from moses_bridge.tables.prune import PruneConfig

READABLE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
ANY_PATH = click.Path(allow_dash=True, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)
SOURCE = click.option("--source", required=True, help="Code of the source language: en.")
TARGET = click.option(
    "--target", required=True, help="Code of the target language: fr, de or pt_BR."
)


@click.group(cls=CommandGroup)
@VERSION
def main() -> None:
    """Make corpora, phrase tables and translations in Moses's formats, with or without Moses.

    Text files may be compressed (.gz, .bz2, .xz, .zst).
    """


def _corpus_settings(
    config: Path | None,
    origin: str | None,
    source_file: Path | None,
    target_file: Path | None,
    files: tuple[Path, ...],
    jobs: int | None,
) -> CorpusConfig:
    """The settings of `moses-bridge corpus`."""
    from moses_bridge.corpus.parallel_corpus import CorpusConfig

    if origin is None and (source_file or target_file or files):
        origin = "files"
    return with_options(load_config(CorpusConfig, config), {"origin": origin, "jobs": jobs})


@main.command()
@SOURCE
@TARGET
@click.option("--out", type=DIRECTORY, required=True, help="Directory for train, dev and test.")
@click.option(
    "--from",
    "origin",
    type=choice_of(Origin),
    help="Where the text comes from: Debian's package descriptions, the help of LibreOffice, both (the help "
    "for training only), or your own files. Sets the key origin.",
)
@click.option("--source-file", type=READABLE, help="Your own source text, one sentence per line.")
@click.option(
    "--target-file", type=READABLE, help="The translation of --source-file, line by line."
)
@click.option(
    "--file",
    "files",
    type=READABLE,
    multiple=True,
    help="Your own file in both languages: .tmx, .po, .mo or .tsv; may be given several times.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Number of processes; sets the key jobs.  [default: one per processor]",
)
@config_options(_corpus_settings)
def corpus(
    source: str,
    target: str,
    out: Path,
    origin: str | None,
    source_file: Path | None,
    target_file: Path | None,
    files: tuple[Path, ...],
    config: Path | None,
    jobs: int | None,
) -> None:
    """Make a tokenised, lowercased corpus, split into train, dev and test.

    \b
    Example:
      moses-bridge corpus --source en --target fr --out corpus
    """
    from moses_bridge.corpus.parallel_corpus import prepare_corpus

    options = _corpus_settings(config, origin, source_file, target_file, files, jobs)
    report = prepare_corpus(source, target, out, options, source_file, target_file, files)
    _print_corpus(report)


def _select_settings(
    config: Path | None, lines: int | None, share: float | None, words: int | None
) -> SelectConfig:
    """The settings of `moses-bridge select`."""
    from moses_bridge.corpus.selection import SelectConfig

    options = {"n_lines": lines, "share": share, "n_words": words}
    return with_options(load_config(SelectConfig, config), options)


@main.command()
@click.argument("texts", type=READABLE, nargs=-1, required=True)
@click.option(
    "--domain",
    "domain_texts",
    type=READABLE,
    multiple=True,
    help="Text of the domain; give one per TEXT, in the same order.",
)
@click.option(
    "--domain-model",
    "domain_models",
    type=READABLE,
    multiple=True,
    help="N-gram model (ARPA) of the domain, instead of --domain; give one per TEXT, in the same order.",
)
@click.option(
    "--general-model",
    "general_models",
    type=READABLE,
    multiple=True,
    help="N-gram model (ARPA) of general text; give one per --domain-model.",
)
@click.option(
    "--out",
    "outs",
    type=ANY_PATH,
    multiple=True,
    help="File for the chosen lines; give one per TEXT, in the same order.",
)
@click.option("--scores", type=ANY_PATH, help="File for the score of each line.")
@click.option("--lines", type=int, help="Number of lines to choose; sets the key n_lines.")
@click.option("--share", type=float, help="Share of the lines to choose; sets the key share.")
@click.option(
    "--words",
    type=int,
    help="Number of words to choose, counted in the first TEXT; sets the key n_words.",
)
@config_options(_select_settings)
def select(
    texts: tuple[Path, ...],
    domain_texts: tuple[Path, ...],
    domain_models: tuple[Path, ...],
    general_models: tuple[Path, ...],
    outs: tuple[Path, ...],
    scores: Path | None,
    lines: int | None,
    share: float | None,
    words: int | None,
    config: Path | None,
) -> None:
    """Choose the lines of a text, or of two parallel TEXTS, that are closest to a domain.

    Lines are ranked by the difference of cross-entropies (Moore and Lewis, 2010); for parallel texts the
    differences of both sides are added (Axelrod et al., 2011).

    \b
    Example:
      moses-bridge select corpus/train.en corpus/train.fr --domain corpus/dev.en \\
          --domain corpus/dev.fr --out best.en --out best.fr --share 0.4 --scores scores.gz
    """
    from moses_bridge.corpus.selection import Domain, select_text

    options = _select_settings(config, lines, share, words)
    domain = Domain(domain_texts, domain_models, general_models)
    report = select_text(texts, domain, options, outs, scores)
    click.echo(
        f"{report.n_chosen:,} of {report.n_lines:,} lines chosen, "
        f"{report.n_chosen_words:,} of {report.n_words:,} words of {texts[0]}",
        err=True,
    )


def _build_settings(config: Path | None, smoothing: str | None) -> BuildConfig:
    """The settings of `moses-bridge build`."""
    from moses_bridge.builtin.build import BuildConfig

    return with_options(load_config(BuildConfig, config), {"smoothing": smoothing})


@main.command()
@click.option(
    "--corpus",
    "corpus_prefix",
    type=ANY_PATH,
    required=True,
    help="Common prefix of two tokenised texts: corpus/train for corpus/train.en and corpus/train.fr.",
)
@SOURCE
@TARGET
@click.option("--out", type=DIRECTORY, required=True, help="Directory for the model.")
@click.option(
    "--links", type=READABLE, help="Word alignment to use instead of a new one, in Pharaoh format."
)
@click.option(
    "--smoothing",
    type=choice_of(Smoothing),
    help="How the phrase table's relative frequencies are smoothed; sets the key smoothing.",
)
@config_options(_build_settings)
@JOBS
def build(
    corpus_prefix: Path,
    source: str,
    target: str,
    out: Path,
    links: Path | None,
    smoothing: str | None,
    config: Path | None,
    jobs: int,
) -> None:
    """Align a corpus and make a phrase table, a reordering table, a language model and moses.ini.

    \b
    Example:
      moses-bridge build --corpus corpus/train --source en --target fr --out model
    """
    from moses_bridge.builtin.build import build_model

    options = _build_settings(config, smoothing)
    build_model(corpus_prefix, source, target, out, options, links, jobs)


@main.command(name="filter")
@click.option("--ini", type=READABLE, required=True, help="moses.ini of the model to filter.")
@click.option(
    "--input",
    "inputs",
    type=READABLE,
    required=True,
    multiple=True,
    help="Tokenised source text; may be given several times.",
)
@click.option(
    "--out",
    type=DIRECTORY,
    required=True,
    help="Directory for the filtered tables and their moses.ini.",
)
def filter_command(ini: Path, inputs: tuple[Path, ...], out: Path) -> None:
    """Keep only the table rows whose source phrase occurs in the input.

    \b
    Example:
      moses-bridge filter --ini model/moses.ini --input corpus/dev.en --input corpus/test.en \\
          --out filtered
    """
    from moses_bridge.tables.filter import filter_model

    filter_model(ini, inputs, out)


def _prune_settings(config: Path | None, keep: float | None, by: str | None) -> PruneConfig:
    """The settings of `moses-bridge prune`."""
    from moses_bridge.tables.prune import PruneConfig

    options = {"keep": keep, "by": None if by is None else by.split(",")}
    return with_options(load_config(PruneConfig, config), options)


@main.command()
@click.argument("table", type=READABLE)
@click.option(
    "--out",
    type=ANY_PATH,
    required=True,
    help="Table to write; the suffix chooses the compression.",
)
@click.option(
    "--keep", type=float, help="Share of the rows to keep, between 0 and 1; sets the key keep."
)
@click.option(
    "--by",
    help="What ranks the rows: significance, or the number of a score. Several are joined by commas; each "
    "one breaks the ties of those before it. Sets the key by.",
)
@click.option("--ini", type=READABLE, help="moses.ini that names TABLE.")
@click.option(
    "--ini-out",
    type=ANY_PATH,
    help="moses.ini to write, which names the pruned table; needs --ini.",
)
@config_options(_prune_settings)
def prune(
    table: Path,
    out: Path,
    keep: float | None,
    by: str | None,
    ini: Path | None,
    ini_out: Path | None,
    config: Path | None,
) -> None:
    """Keep the best rows of a phrase table.

    \b
    Example:
      moses-bridge prune rnn/phrase-table.gz --by significance,5 --keep 0.5 \\
          --out pruned/phrase-table.gz --ini rnn/moses.ini --ini-out pruned/moses.ini
    """
    from moses_bridge.tables.prune import prune_table

    report = prune_table(table, out, _prune_settings(config, keep, by), ini, ini_out)
    click.echo(
        f"{out}: {report.n_kept:,} of {report.n_rows:,} rows; {report.n_words:,} words keep their best one",
        err=True,
    )


@main.command()
@click.argument("table", type=READABLE)
@click.option(
    "--num-scores",
    type=click.IntRange(min=1),
    help="Number of dense scores per row.  [default: that of the first good row]",
)
@click.option("--ini", type=READABLE, help="moses.ini to check against the table.")
@click.option(
    "--show",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Number of faults of each kind to print; 0 prints all.",
)
def check(table: Path, num_scores: int | None, ini: Path | None, show: int) -> None:
    """Report every faulty row of a phrase table and summarise its contents.

    With --ini, also check what moses.ini says about the table: num-features, weights, path and factors.
    The exit status is 1 if there is a fault.

    \b
    Example:
      moses-bridge check model/phrase-table.gz --num-scores 4 --ini model/moses.ini
    """
    from moses_bridge.check.ini import ini_faults
    from moses_bridge.check.table import check_table

    report = check_table(table, num_scores, show or sys.maxsize)
    if ini is not None:
        report.add_faults(ini_faults(ini, report))
    for line in (*map(str, report.faults), *report.summary()):
        click.echo(line)
    sys.exit(1 if report.faults else 0)


def _decoder_settings(
    config: Path | None,
    decoder: str | None,
    stack: int | None,
    cube_pruning_pop_limit: int | None,
    neural_lms: tuple[str, ...],
) -> DecoderConfig:
    """The settings of `moses-bridge decode`."""
    from moses_bridge.decoding.decoder import DecoderConfig

    options = {
        "kind": decoder,
        "stack_size": stack,
        "pop_limit": cube_pruning_pop_limit,
        "neural_lm": [*neural_lms] or None,
    }
    return with_options(load_config(DecoderConfig, config), options)


@main.command()
@click.option(
    "--ini", type=READABLE, required=True, help="moses.ini that names the tables and weights."
)
@click.option(
    "--input", "source", type=READABLE, required=True, help="Tokenised text, one sentence per line."
)
@click.option(
    "--output",
    type=ANY_PATH,
    default="-",
    help="File for the translations.  [default: standard output]",
)
@click.option("--nbest", type=ANY_PATH, help="N-best list to write, of distinct translations.")
@click.option(
    "--nbest-size",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Largest number of translations per sentence in --nbest.",
)
@click.option(
    "--decoder",
    type=choice_of(DecoderKind),
    help="Decoder to use; auto is Moses if `moses` is on the PATH, else the built-in one. Sets the key kind.",
)
@click.option(
    "--stack",
    type=click.IntRange(min=1),
    help="Number of hypotheses kept per stack; sets the key stack_size.",
)
@click.option(
    "--cube-pruning-pop-limit",
    type=click.IntRange(min=1),
    help="Number of hypotheses made per stack; sets the key pop_limit.",
)
@click.option(
    "--weights",
    type=READABLE,
    help='Weights to use instead of those in the ini: JSON, {"LM0": [0.5], ...}, or a weights.json of tuning.',
)
@click.option(
    "--neural-lm",
    "neural_lms",
    multiple=True,
    help='NAME=COMMAND, a neural model to use in the built-in search: "CSLM0=rescorer serve cslm"; may be '
    "given several times. Sets the key neural_lm.",
)
@click.option(
    "--constrain",
    type=READABLE,
    help="Translations to force, one line per sentence. The output line is empty where that is impossible.",
)
@config_options(_decoder_settings)
@JOBS
def decode(
    ini: Path,
    source: Path,
    output: Path,
    nbest: Path | None,
    nbest_size: int,
    decoder: str | None,
    stack: int | None,
    cube_pruning_pop_limit: int | None,
    weights: Path | None,
    neural_lms: tuple[str, ...],
    constrain: Path | None,
    config: Path | None,
    jobs: int,
) -> None:
    """Translate a text, with Moses if it is installed, else with the built-in decoder.

    \b
    Example:
      moses-bridge decode --ini filtered/moses.ini --input corpus/test.en --output test.out \\
          --nbest test.nbest.gz --nbest-size 100
    """
    from moses_bridge.decoding.decoder import open_decoder
    from moses_bridge.formats.weights import weights_over_ini

    options = _decoder_settings(config, decoder, stack, cube_pruning_pop_limit, neural_lms)
    overwrite = weights_over_ini(weights, ini) if weights else None
    if constrain is not None:
        from moses_bridge.decoding.given_translations import force_translations

        report = force_translations(ini, options, jobs, source, constrain, output, overwrite, nbest)
        click.echo(f"{report.n_missed} of {report.n_lines} translations cannot be made", err=True)
        return
    with open_decoder(ini, options, jobs) as search:
        search.decode(source, output, overwrite, nbest, nbest_size)


@main.command(name="score-nbest")
@click.argument("nbest", type=READABLE)
@click.option(
    "--ini", type=READABLE, required=True, help="moses.ini that names the tables and weights."
)
@click.option(
    "--input",
    "source",
    type=READABLE,
    required=True,
    help="Tokenised source text of the n-best list.",
)
@click.option("--out", type=ANY_PATH, required=True, help="N-best list to write.")
@click.option(
    "--weights",
    type=READABLE,
    help="Weights to use instead of those in the ini; see `moses-bridge decode --help`.",
)
def score_nbest(nbest: Path, ini: Path, source: Path, out: Path, weights: Path | None) -> None:
    """Recompute the features of an n-best list with another model, from its segmentation.

    \b
    Example:
      moses-bridge score-nbest test.nbest.gz --ini new/moses.ini --input test.en --out new.nbest.gz
    """
    from moses_bridge.decoding.given_translations import score_entries
    from moses_bridge.formats.weights import weights_over_ini

    score_entries(ini, source, nbest, out, weights_over_ini(weights, ini) if weights else None)


@main.command(name="config")
@click.argument("experiments", type=READABLE, nargs=-1, required=True)
@click.option("--out", type=DIRECTORY, required=True, help="Directory for the files.")
def config_command(experiments: tuple[Path, ...], out: Path) -> None:
    """Split experiment files into one settings file per command.

    Keys of a later file override those of the earlier ones. A file whose content stays the same is not
    touched.

    \b
    Example:
      moses-bridge config tuning/experiments/tiny.toml --out build/config
    """
    from moses_bridge.base.experiment import split_experiment

    split_experiment(experiments, out)


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--log",
    type=ANY_PATH,
    required=True,
    help="Log to append to, in JSON lines; created if it does not exist.",
)
@click.option("--name", help="Name of the step in the log.  [default: the command line]")
def step(command: tuple[str, ...], log: Path, name: str | None) -> None:
    """Run COMMAND, append its time and memory to a log, and exit with its status.

    \b
    Example:
    moses-bridge step --log steps.jsonl --name model -- rescorer train table.gz --out rnn
    """
    from moses_bridge.base.steps import run_step

    sys.exit(run_step(command, log, name or shlex.join(command)))


@main.command()
@click.argument("log", type=READABLE)
def steps(log: Path) -> None:
    """Print the time of each step in LOG, and the memory of its largest process.

    \b
    Example:
    moses-bridge steps build/table1/steps.jsonl
    """
    from moses_bridge.base.steps import read_steps, step_lines

    for line in step_lines(read_steps(log)):
        click.echo(line)


def _print_corpus(report: CorpusReport) -> None:
    for part, n_pairs in report.pairs.items():
        source_words, target_words = report.source_words[part], report.target_words[part]
        click.echo(
            f"{part}: {n_pairs:,} pairs, {source_words:,} words of {report.source}, "
            f"{target_words:,} of {report.target}"
        )
    for reason, n_dropped in report.dropped.items():
        click.echo(f"left out, {reason}: {n_dropped:,}")
