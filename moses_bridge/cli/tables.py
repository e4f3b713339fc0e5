"""Commands of tables and models: build, align, lexicon, filter, prune, check, combine, mix-models."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.choices import Aligner, Combination, Smoothing, UnknownPhrases
from moses_bridge.base.command import command
from moses_bridge.base.config import with_options
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.options import (
    ARGUMENT,
    N_JOBS,
    ConfigOptions,
    ExistingDirectory,
    FileOrDirectory,
    FileOrStdin,
    FileOrStdout,
    Jobs,
    JobsOptions,
    Natural,
    OutputDirectory,
    Positive,
    Prefix,
    option,
)
from moses_bridge.builtin.lexicon_choice import LexiconChoice
from moses_bridge.cli.corpus import Languages

if TYPE_CHECKING:
    from moses_bridge.builtin.build import BuildConfig
    from moses_bridge.tables.prune import PruneConfig


@dataclass(frozen=True, kw_only=True)
class BuildOptions(JobsOptions, ConfigOptions):
    """Options of `moses-bridge build`.

    Attributes:
        corpus_prefix: Common prefix of two tokenised texts: corpus/train for corpus/train.en and
            corpus/train.fr.
        out: Directory for the model.
        links: Word alignment to use instead of a new one, in Pharaoh format.
        aligner: Directory of `moses-bridge align --out`, whose aligner links the corpus instead of a new one.
        smoothing: How the phrase table's relative frequencies are smoothed.
    """

    corpus_prefix: Annotated[Prefix, option("--corpus")]
    out: OutputDirectory
    links: FileOrStdin | None = None
    aligner: ExistingDirectory | None = None
    smoothing: Annotated[Smoothing | None, option(key="smoothing")] = None

    def settings(self) -> BuildConfig:
        """The settings of a model."""
        from moses_bridge.builtin.build import BuildConfig

        return self.settings_of(BuildConfig)


@command
def build(languages: Languages, options: BuildOptions) -> None:
    """Make a phrase table and its models from a corpus.

    The corpus is aligned; a phrase table, a reordering table, a language model and a moses.ini are made of it.

    \b
    Example:
      moses-bridge build --corpus corpus/train --source-language en --target-language fr --out model
    """
    from moses_bridge.builtin.build import build_model

    build_model(
        options.corpus_prefix,
        languages.source_language,
        languages.target_language,
        options.out,
        options.settings(),
        options.links,
        options.jobs,
        options.aligner,
    )


@command
def align(
    source: Annotated[FileOrStdin, ARGUMENT],
    target: Annotated[FileOrStdin, ARGUMENT],
    out: Annotated[OutputDirectory | None, "Directory for an aligner trained on the texts."] = None,
    kind: Annotated[Aligner, "Kind of the aligner trained for --out."] = "eflomal",
    aligner: Annotated[
        ExistingDirectory | None, "Directory of an aligner, an earlier --out."
    ] = None,
    links_out: Annotated[FileOrStdout | None, "File for the word links, in Pharaoh format."] = None,
    scores_out: Annotated[
        FileOrStdout | None,
        "File for two natural log-probabilities per sentence pair, divided by words: of TARGET given SOURCE "
        "and of SOURCE given TARGET.",
    ] = None,
    jobs: Jobs = N_JOBS,
) -> None:
    """Train a word aligner, or link texts with a trained one.

    SOURCE and TARGET are tokenised texts, line by line.

    \b
    Example:
      moses-bridge align corpus/train.en corpus/train.fr --out aligner
      moses-bridge align new.en new.fr --aligner aligner --links-out new.links.gz \\
          --scores-out new.scores.gz
    """
    from moses_bridge.builtin.aligner import link_text, train_aligner

    kept = out or aligner
    if kept is None or (out and aligner):
        raise ConfigError("give --out to train an aligner, or --aligner to use a trained one")
    if links_out is None and (scores_out or aligner):
        raise ConfigError(
            "--aligner and --scores-out need --links-out, the file for the word links"
        )
    if out is not None:
        train_aligner(source, target, out, kind, jobs)
    if links_out is not None:
        report = link_text(source, target, kept, links_out, scores_out)
        click.echo(
            f"{report.n_pairs:,} sentence pairs linked, but for {report.n_unlinked:,} with a side that is "
            f"empty or too long; {report.n_unknown:,} of {report.n_words:,} words are unknown to the aligner",
            err=True,
        )


@command
def lexicon(
    model: Annotated[FileOrDirectory, ARGUMENT],
    choice: LexiconChoice,
    out: Annotated[FileOrStdout, "Lexicon to write; the suffix chooses the compression."],
    texts: Annotated[
        tuple[FileOrStdin, FileOrStdin] | None,
        "Tokenised source and target text that MODEL was made of, to count the links.",
    ] = None,
    pieces: Annotated[
        tuple[FileOrStdin, ...],
        option("--sentencepiece"),
        "SentencePiece model, or two, of source and target: write pieces of words. Needs --texts.",
    ] = (),
    cover: Annotated[
        tuple[FileOrStdin, FileOrStdin] | None,
        "Source text and references: print the share of reference words that the lexicon has for a sentence.",
    ] = None,
) -> None:
    """Write the best translations of each word.

    MODEL is a directory of `moses-bridge build` or, with --texts, a file of word links. The lexicon is a table
    with tabs, or a file for Marian's --shortlist or for bicleaner.

    \b
    Example:
      moses-bridge lexicon model --out lex.s2t.gz --format marian --cover corpus/dev.en corpus/dev.fr
    """
    from moses_bridge.builtin.lexicon import write_lexicon

    n_pairs, coverage = write_lexicon(model, out, choice, texts, pieces, cover)
    click.echo(f"{out}: {n_pairs:,} pairs", err=True)
    if coverage is not None:
        click.echo(
            f"{coverage.n_covered / coverage.n_words:.2%} of {coverage.n_words:,} reference words covered, "
            f"by {coverage.n_listed / coverage.n_sentences:.1f} words a sentence",
            err=True,
        )


@command
def filter_command(
    ini: Annotated[FileOrStdin, "moses.ini of the model to filter."],
    sources: Annotated[
        tuple[FileOrStdin, ...],
        option("--source"),
        "Tokenised source text; may be given several times.",
    ],
    out: Annotated[OutputDirectory, "Directory for the filtered tables and their moses.ini."],
) -> None:
    """Keep the table rows whose source phrase occurs in a text.

    \b
    Example:
      moses-bridge filter --ini model/moses.ini --source corpus/dev.en --source corpus/test.en \\
          --out filtered
    """
    from moses_bridge.tables.filter import filter_model

    filter_model(ini, sources, out)


@dataclass(frozen=True, kw_only=True)
class PruneOptions(ConfigOptions):
    """Options of `moses-bridge prune`.

    Attributes:
        table: Phrase table to prune.
        out: Table to write; the suffix chooses the compression.
        share: Share of the rows to keep, between 0 and 1.
        by: What ranks the rows: significance, or the number of a score. Several are joined by commas; each one
            breaks the ties of those before it. Sets the key by.
        ini: moses.ini that names TABLE.
        ini_out: moses.ini to write, which names the pruned table; needs --ini.
    """

    table: Annotated[FileOrStdin, ARGUMENT]
    out: FileOrStdout
    share: Annotated[float | None, option(key="share")] = None
    by: str | None = None
    ini: FileOrStdin | None = None
    ini_out: FileOrStdout | None = None

    def settings(self) -> PruneConfig:
        """The settings of pruning."""
        from moses_bridge.tables.prune import PruneConfig

        by = None if self.by is None else self.by.split(",")
        return with_options(self.settings_of(PruneConfig), {"by": by})


@command
def prune(options: PruneOptions) -> None:
    """Keep the best rows of a phrase table.

    \b
    Example:
      moses-bridge prune rnn/phrase-table.gz --by significance,5 --share 0.5 \\
          --out pruned/phrase-table.gz --ini rnn/moses.ini --ini-out pruned/moses.ini
    """
    from moses_bridge.tables.prune import prune_table

    report = prune_table(
        options.table, options.out, options.settings(), options.ini, options.ini_out
    )
    click.echo(
        f"{options.out}: {report.n_kept:,} of {report.n_rows:,} rows; "
        f"{report.n_words:,} words keep their best one",
        err=True,
    )


@command
def check(
    table: Annotated[FileOrStdin, ARGUMENT],
    num_scores: Annotated[
        Positive | None, "Number of dense scores per row.  [default: that of the first good row]"
    ] = None,
    ini: Annotated[FileOrStdin | None, "moses.ini to check against the table."] = None,
    show: Annotated[Natural, "Number of faults of each kind to print; 0 prints all."] = 20,
) -> None:
    """Report the faulty rows of a phrase table.

    A summary of its contents follows. With --ini, also check what moses.ini says about the table:
    num-features, weights, path and factors. The exit status is 1 if there is a fault.

    \b
    Example:
      moses-bridge check model/phrase-table.gz --num-scores 4 --ini model/moses.ini
    """
    from moses_bridge.tables.check.ini import ini_faults
    from moses_bridge.tables.check.table import check_table

    report = check_table(table, num_scores, show or sys.maxsize)
    if ini is not None:
        report.add_faults(ini_faults(ini, report))
    for line in (*map(str, report.faults), *report.summary()):
        click.echo(line)
    sys.exit(1 if report.faults else 0)


def _weights(text: str | None) -> tuple[tuple[float, ...], ...]:
    """Lists of weights: "0.7,0.3", several ones joined by ";"."""
    if text is None:
        return ()
    try:
        return tuple(tuple(map(float, weights.split(","))) for weights in text.split(";"))
    except ValueError as error:
        found = f"found --corpus-weights {text}"
        raise ConfigError(f"{found}, expected numbers as in 0.7,0.3") from error


def _shown(weights: tuple[float, ...]) -> str:
    return ",".join(f"{weight:.6g}" for weight in weights)


@command
def combine(
    tables: Annotated[tuple[FileOrStdin, ...], ARGUMENT],
    how: Annotated[
        Combination,
        "How the tables are combined: counts adds their counts; mixture interpolates their scores; fill-up "
        "takes each pair from the first table that has it and adds a score for each further table; "
        "first-found adds no score; back-off takes all pairs of a source phrase from the first table that has "
        "it.",
    ],
    out: Annotated[FileOrStdout, "Table to write; the suffix chooses the compression."],
    corpus_weights: Annotated[
        str | None,
        "Weights of the tables for counts or a mixture: 0.7,0.3, or four lists joined by ; (one a score).",
    ] = None,
    dev: Annotated[
        FileOrStdin | None,
        "Phrase pairs of a development text to fit the weights to: Moses's extract file, or a phrase table.",
    ] = None,
    unknown: Annotated[
        UnknownPhrases,
        "What a mixture does with a phrase missing from a table: renormalise leaves the table out of "
        "probabilities given this phrase; zero makes them 0.",
    ] = "renormalise",
) -> None:
    """Combine phrase tables of several corpora.

    TABLES are sorted as Moses sorts them (LC_ALL=C sort) and have the same scores. Rows have the alignment
    and further columns of the first table that has the pair. fill-up, first-found and back-off take any scores,
    first-found and back-off reordering tables too.

    \b
    Example:
      moses-bridge combine in/phrase-table.gz out/phrase-table.gz --how mixture \\
          --dev dev/extract.gz --out mixed.gz
    """
    from moses_bridge.tables.combination.combine import CombineConfig, combine_tables

    config = CombineConfig(how, _weights(corpus_weights), unknown)
    report = combine_tables(tables, out, config, dev)
    found = ", ".join(f"{n:,}" for n in report.n_first)
    click.echo(f"{out}: {report.n_rows:,} rows, first found in the tables: {found}", err=True)
    if report.weights:
        click.echo(f"weights: {';'.join(map(_shown, report.weights))}", err=True)
    if report.cross_entropies:
        bits = ", ".join(f"{entropy:.4f}" for entropy in report.cross_entropies)
        click.echo(f"cross-entropy of {dev} in bits per pair: {bits}", err=True)


@command
def mix_models(
    models: Annotated[tuple[FileOrStdin, ...], ARGUMENT],
    out: Annotated[FileOrStdout, "ARPA file to write; the suffix chooses the compression."],
    corpus_weights: Annotated[str | None, "Weights of the models, whose sum is 1: 0.7,0.3."] = None,
    dev: Annotated[FileOrStdin | None, "Tokenised development text to fit the weights to."] = None,
) -> None:
    """Mix language models into one ARPA file.

    MODELS are ARPA files. The mixture is linear; its n-grams are those of all models, and back-off weights are
    computed anew.

    \b
    Example:
      moses-bridge mix-models in/lm.arpa.gz out/lm.arpa.gz --dev dev.fr --out mixed.arpa.gz
    """
    from moses_bridge.builtin.language_model.mixed_model import mix_models as mix

    lists = _weights(corpus_weights)
    if len(lists) > 1:
        raise ConfigError(f"found --corpus-weights {corpus_weights}, expected one list")
    report = mix(models, out, lists[0] if lists else (), dev)
    n_ngrams = ", ".join(f"{n:,}" for n in report.n_ngrams)
    click.echo(f"{out}: n-grams of each order: {n_ngrams}", err=True)
    click.echo(f"weights: {_shown(report.weights)}", err=True)
    if report.perplexity is not None:
        click.echo(
            f"perplexity of {dev}: {report.perplexity:.2f}, "
            f"without {report.n_unknown:,} words of no model",
            err=True,
        )
