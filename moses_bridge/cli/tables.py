"""Commands that make, reduce and check tables: build, filter, prune, check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.choices import Smoothing
from moses_bridge.base.command import (
    FILE_OR_STDIN,
    FILE_OR_STDOUT,
    JOBS,
    OUTPUT_DIRECTORY,
    PREFIX,
    Command,
    choice_of,
    command,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from moses_bridge.cli.options import SOURCE_LANGUAGE, TARGET_LANGUAGE

if TYPE_CHECKING:
    from moses_bridge.builtin.build import BuildConfig
    from moses_bridge.tables.prune import PruneConfig


def _build_settings(config: Path | None, smoothing: str | None) -> BuildConfig:
    """The settings of `moses-bridge build`."""
    from moses_bridge.builtin.build import BuildConfig

    return with_options(load_config(BuildConfig, config), {"smoothing": smoothing})


@command
@click.option(
    "--corpus",
    "corpus_prefix",
    type=PREFIX,
    required=True,
    help="Common prefix of two tokenised texts: corpus/train for corpus/train.en and corpus/train.fr.",
)
@SOURCE_LANGUAGE
@TARGET_LANGUAGE
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for the model.")
@click.option(
    "--links",
    type=FILE_OR_STDIN,
    help="Word alignment to use instead of a new one, in Pharaoh format.",
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
    source_language: str,
    target_language: str,
    out: Path,
    links: Path | None,
    smoothing: str | None,
    config: Path | None,
    jobs: int,
) -> None:
    """Make a phrase table and its models from a corpus.

    The corpus is aligned; a phrase table, a reordering table, a language model and a moses.ini are made of it.

    \b
    Example:
      moses-bridge build --corpus corpus/train --source-language en --target-language fr --out model
    """
    from moses_bridge.builtin.build import build_model

    options = _build_settings(config, smoothing)
    build_model(corpus_prefix, source_language, target_language, out, options, links, jobs)


@click.command("filter", cls=Command)
@click.option("--ini", type=FILE_OR_STDIN, required=True, help="moses.ini of the model to filter.")
@click.option(
    "--source",
    "sources",
    type=FILE_OR_STDIN,
    required=True,
    multiple=True,
    help="Tokenised source text; may be given several times.",
)
@click.option(
    "--out",
    type=OUTPUT_DIRECTORY,
    required=True,
    help="Directory for the filtered tables and their moses.ini.",
)
def filter_command(ini: Path, sources: tuple[Path, ...], out: Path) -> None:
    """Keep the table rows whose source phrase occurs in a text.

    \b
    Example:
      moses-bridge filter --ini model/moses.ini --source corpus/dev.en --source corpus/test.en \\
          --out filtered
    """
    from moses_bridge.tables.filter import filter_model

    filter_model(ini, sources, out)


def _prune_settings(config: Path | None, share: float | None, by: str | None) -> PruneConfig:
    """The settings of `moses-bridge prune`."""
    from moses_bridge.tables.prune import PruneConfig

    options = {"share": share, "by": None if by is None else by.split(",")}
    return with_options(load_config(PruneConfig, config), options)


@command
@click.argument("table", type=FILE_OR_STDIN)
@click.option(
    "--out",
    type=FILE_OR_STDOUT,
    required=True,
    help="Table to write; the suffix chooses the compression.",
)
@click.option(
    "--share", type=float, help="Share of the rows to keep, between 0 and 1; sets the key share."
)
@click.option(
    "--by",
    help="What ranks the rows: significance, or the number of a score. Several are joined by commas; each "
    "one breaks the ties of those before it. Sets the key by.",
)
@click.option("--ini", type=FILE_OR_STDIN, help="moses.ini that names TABLE.")
@click.option(
    "--ini-out",
    type=FILE_OR_STDOUT,
    help="moses.ini to write, which names the pruned table; needs --ini.",
)
@config_options(_prune_settings)
def prune(
    table: Path,
    out: Path,
    share: float | None,
    by: str | None,
    ini: Path | None,
    ini_out: Path | None,
    config: Path | None,
) -> None:
    """Keep the best rows of a phrase table.

    \b
    Example:
      moses-bridge prune rnn/phrase-table.gz --by significance,5 --share 0.5 \\
          --out pruned/phrase-table.gz --ini rnn/moses.ini --ini-out pruned/moses.ini
    """
    from moses_bridge.tables.prune import prune_table

    report = prune_table(table, out, _prune_settings(config, share, by), ini, ini_out)
    click.echo(
        f"{out}: {report.n_kept:,} of {report.n_rows:,} rows; {report.n_words:,} words keep their best one",
        err=True,
    )


@command
@click.argument("table", type=FILE_OR_STDIN)
@click.option(
    "--num-scores",
    type=click.IntRange(min=1),
    help="Number of dense scores per row.  [default: that of the first good row]",
)
@click.option("--ini", type=FILE_OR_STDIN, help="moses.ini to check against the table.")
@click.option(
    "--show",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Number of faults of each kind to print; 0 prints all.",
)
def check(table: Path, num_scores: int | None, ini: Path | None, show: int) -> None:
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


COMMANDS = (
    build,
    filter_command,
    prune,
    check,
)
