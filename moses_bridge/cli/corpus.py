"""Commands that make text: corpus, select, folds, join-folds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.choices import Origin
from moses_bridge.base.command import (
    FILE_OR_STDIN,
    FILE_OR_STDOUT,
    OUTPUT_DIRECTORY,
    PREFIX,
    choice_of,
    command,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from moses_bridge.cli.options import SOURCE_LANGUAGE, TARGET_LANGUAGE

if TYPE_CHECKING:
    from moses_bridge.corpus.corpus_config import CorpusConfig
    from moses_bridge.corpus.parallel_corpus import CorpusReport
    from moses_bridge.corpus.selection import SelectConfig


def _corpus_settings(
    config: Path | None,
    origin: str | None,
    source: Path | None,
    target: Path | None,
    files: tuple[Path, ...],
    jobs: int | None,
) -> CorpusConfig:
    """The settings of `moses-bridge corpus`."""
    from moses_bridge.corpus.corpus_config import CorpusConfig

    if origin is None and (source or target or files):
        origin = "files"
    return with_options(load_config(CorpusConfig, config), {"origin": origin, "jobs": jobs})


@command
@SOURCE_LANGUAGE
@TARGET_LANGUAGE
@click.option(
    "--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for train, dev and test."
)
@click.option(
    "--from",
    "origin",
    type=choice_of(Origin),
    help="Where the text comes from: Debian's package descriptions, the help of LibreOffice, both (the help "
    "for training only), or your own files. Sets the key origin.",
)
@click.option("--source", type=FILE_OR_STDIN, help="Your own source text, one sentence per line.")
@click.option("--target", type=FILE_OR_STDIN, help="The translation of --source, line by line.")
@click.option(
    "--file",
    "files",
    type=FILE_OR_STDIN,
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
    source_language: str,
    target_language: str,
    out: Path,
    origin: str | None,
    source: Path | None,
    target: Path | None,
    files: tuple[Path, ...],
    config: Path | None,
    jobs: int | None,
) -> None:
    """Make a corpus, split into train, dev and test.

    Its text is tokenised and lowercased.

    \b
    Example:
      moses-bridge corpus --source-language en --target-language fr --out corpus
    """
    from moses_bridge.corpus.parallel_corpus import prepare_corpus

    options = _corpus_settings(config, origin, source, target, files, jobs)
    report = prepare_corpus(source_language, target_language, out, options, source, target, files)
    _print_corpus(report)


def _select_settings(
    config: Path | None, lines: int | None, share: float | None, words: int | None
) -> SelectConfig:
    """The settings of `moses-bridge select`."""
    from moses_bridge.corpus.selection import SelectConfig

    options = {"n_lines": lines, "share": share, "n_words": words}
    return with_options(load_config(SelectConfig, config), options)


@command
@click.argument("texts", type=FILE_OR_STDIN, nargs=-1, required=True)
@click.option(
    "--domain",
    "domain_texts",
    type=FILE_OR_STDIN,
    multiple=True,
    help="Text of the domain; give one per TEXT, in the same order.",
)
@click.option(
    "--domain-model",
    "domain_models",
    type=FILE_OR_STDIN,
    multiple=True,
    help="N-gram model (ARPA) of the domain, instead of --domain; give one per TEXT, in the same order.",
)
@click.option(
    "--general-model",
    "general_models",
    type=FILE_OR_STDIN,
    multiple=True,
    help="N-gram model (ARPA) of general text; give one per --domain-model.",
)
@click.option(
    "--out",
    "outs",
    type=FILE_OR_STDOUT,
    multiple=True,
    help="File for the chosen lines; give one per TEXT, in the same order.",
)
@click.option("--scores-out", type=FILE_OR_STDOUT, help="File for the score of each line.")
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
    scores_out: Path | None,
    lines: int | None,
    share: float | None,
    words: int | None,
    config: Path | None,
) -> None:
    """Choose the lines of texts that are closest to a domain.

    TEXTS are one text or two parallel ones. Lines are ranked by the difference of cross-entropies (Moore and
    Lewis, 2010); for parallel texts the differences of both sides are added (Axelrod et al., 2011).

    \b
    Example:
      moses-bridge select corpus/train.en corpus/train.fr --domain corpus/dev.en \\
          --domain corpus/dev.fr --out best.en --out best.fr --share 0.4 --scores-out scores.gz
    """
    from moses_bridge.corpus.selection import Domain, select_text

    options = _select_settings(config, lines, share, words)
    domain = Domain(domain_texts, domain_models, general_models)
    report = select_text(texts, domain, options, outs, scores_out)
    click.echo(
        f"{report.n_chosen:,} of {report.n_lines:,} lines chosen, "
        f"{report.n_chosen_words:,} of {report.n_words:,} words of {texts[0]}",
        err=True,
    )


def _print_corpus(report: CorpusReport) -> None:
    for part, n_pairs in report.pairs.items():
        source_words, target_words = report.source_words[part], report.target_words[part]
        click.echo(
            f"{part}: {n_pairs:,} pairs, {source_words:,} words of {report.source}, "
            f"{target_words:,} of {report.target}"
        )
    documents = ", ".join(f"{part} {n:,}" for part, n in report.documents.items())
    click.echo(f"packages or documents: {documents}")
    for reason, n_dropped in report.dropped.items():
        click.echo(f"left out, {reason}: {n_dropped:,}")
    if report.near_copies:
        shares = ", ".join(f"{share:.1%} (>= {at})" for at, share in report.near_copies.items())
        click.echo(f"test sentences with a near copy in train, by similarity: {shares}")


@command
@click.option(
    "--corpus",
    "prefix",
    type=PREFIX,
    required=True,
    help="Common prefix of two tokenised texts: corpus/train for corpus/train.en and corpus/train.fr.",
)
@SOURCE_LANGUAGE
@TARGET_LANGUAGE
@click.option(
    "--groups",
    type=FILE_OR_STDIN,
    help="Document of each sentence, one name per line; each document is in one fold.  "
    "[default: folds are contiguous pieces]",
)
@click.option("--links", type=FILE_OR_STDIN, help="Word alignment of the text in Pharaoh format.")
@click.option(
    "--folds",
    "n_folds",
    type=click.IntRange(min=2),
    default=10,
    show_default=True,
    help="Number of folds.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Seed of the choice of documents.",
)
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for the folds.")
def folds(
    prefix: Path,
    source_language: str,
    target_language: str,
    groups: Path | None,
    links: Path | None,
    n_folds: int,
    seed: int,
    out: Path,
) -> None:
    """Cut a parallel text into folds by document.

    For each fold there is the rest of the text: a system trained on rest.* in OUT/1 has not seen the sentences
    of fold.* in OUT/1, and so on.

    \b
    Example:
      moses-bridge folds --corpus corpus/train --source-language en --target-language fr \\
          --groups corpus/train.groups --links model/aligned.grow-diag-final-and.gz --out folds
    """
    from moses_bridge.corpus.folds import FoldedText, cut_folds

    text = FoldedText(prefix, source_language, target_language, groups, links)
    sizes = cut_folds(text, out, n_folds, seed)
    click.echo(f"sentences of each fold: {', '.join(f'{size:,}' for size in sizes)}")


@command
@click.argument("folds", type=FILE_OR_STDIN)
@click.argument("nbest", type=FILE_OR_STDIN, nargs=-1, required=True)
@click.option(
    "--out",
    type=FILE_OR_STDOUT,
    required=True,
    help="N-best list to write; the suffix chooses the compression.",
)
def join_folds(folds: Path, nbest: tuple[Path, ...], out: Path) -> None:
    """Join the n-best lists of all folds.

    The result is one list of the whole text. FOLDS is the file of this name that `moses-bridge folds` writes.
    Give one NBEST per fold, in their order.

    \b
    Example:
      moses-bridge join-folds folds/folds folds/1/lists.gz folds/2/lists.gz --out lists.gz
    """
    from moses_bridge.corpus.folds import join_folds as join_lists

    n_entries = join_lists(folds, nbest, out)
    click.echo(f"{n_entries:,} translations", err=True)


COMMANDS = (
    corpus,
    select,
    folds,
    join_folds,
)
