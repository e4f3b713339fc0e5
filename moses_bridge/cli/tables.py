"""Commands that make, reduce and check tables: build, filter, prune, check."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.choices import Smoothing
from moses_bridge.base.command import command
from moses_bridge.base.config import with_options
from moses_bridge.base.options import (
    ARGUMENT,
    N_JOBS,
    ConfigOptions,
    FileOrStdin,
    FileOrStdout,
    Natural,
    OutputDirectory,
    Positive,
    Prefix,
    option,
)
from moses_bridge.cli.corpus import Languages

if TYPE_CHECKING:
    from moses_bridge.builtin.build import BuildConfig
    from moses_bridge.tables.prune import PruneConfig


@dataclass(frozen=True, kw_only=True)
class BuildOptions(ConfigOptions):
    """Options of `moses-bridge build`.

    Attributes:
        corpus_prefix: Common prefix of two tokenised texts: corpus/train for corpus/train.en and
            corpus/train.fr.
        out: Directory for the model.
        links: Word alignment to use instead of a new one, in Pharaoh format.
        smoothing: How the phrase table's relative frequencies are smoothed.
        jobs: Number of processes or threads. [default: one per processor]
    """

    corpus_prefix: Annotated[Prefix, option("--corpus")]
    out: OutputDirectory
    links: FileOrStdin | None = None
    smoothing: Annotated[Smoothing | None, option(key="smoothing")] = None
    jobs: Positive = N_JOBS

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
        Positive | None,
        "Number of dense scores per row.  [default: that of the first good row]",
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


COMMANDS = (build, filter_command, prune, check)
