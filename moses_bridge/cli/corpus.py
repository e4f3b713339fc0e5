"""Commands that make text: corpus, select, folds, join-folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.choices import Origin
from moses_bridge.base.command import command
from moses_bridge.base.config import AtLeast, with_options
from moses_bridge.base.options import (
    ARGUMENT,
    ConfigOptions,
    FileOrStdin,
    FileOrStdout,
    Natural,
    OutputDirectory,
    Positive,
    Prefix,
    option,
)

if TYPE_CHECKING:
    from moses_bridge.corpus.corpus_config import CorpusConfig
    from moses_bridge.corpus.parallel_corpus import CorpusReport
    from moses_bridge.corpus.selection import SelectConfig


FEWEST = {"train": 1000, "dev": 100, "test": 100}  # pairs


@dataclass(frozen=True, kw_only=True)
class Languages:
    """The languages of a parallel text.

    Attributes:
        source_language: Code of the source language: en.
        target_language: Code of the target language: fr, de or pt_BR.
    """

    source_language: str
    target_language: str


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(ConfigOptions):
    """Options of `moses-bridge corpus`.

    Attributes:
        out: Directory for train, dev and test.
        origin: Where the text comes from: Debian's package descriptions, the help of LibreOffice, both (the
            help for training only), or your own files.
        source: Your own source text, one sentence per line.
        target: The translation of --source, line by line.
        files: Your own file in both languages: .tmx, .po, .mo or .tsv; may be given several times.
        jobs: Number of processes. [default: one per processor]
    """

    out: OutputDirectory
    origin: Annotated[Origin | None, option("--from", key="origin")] = None
    source: FileOrStdin | None = None
    target: FileOrStdin | None = None
    files: Annotated[tuple[FileOrStdin, ...], option("--file")] = ()
    jobs: Annotated[Positive | None, option(key="jobs")] = None

    def settings(self) -> CorpusConfig:
        """The settings of a corpus."""
        from moses_bridge.corpus.corpus_config import CorpusConfig

        is_own = self.origin is None and (self.source or self.target or self.files)
        return with_options(self.settings_of(CorpusConfig), {"origin": "files" if is_own else None})


@command
def corpus(languages: Languages, options: CorpusOptions) -> None:
    """Make a corpus, split into train, dev and test.

    Its text is tokenised, and lowercased unless the settings name another case.

    \b
    Example:
      moses-bridge corpus --source-language en --target-language fr --out corpus
    """
    from moses_bridge.corpus.parallel_corpus import prepare_corpus

    report = prepare_corpus(
        languages.source_language,
        languages.target_language,
        options.out,
        options.settings(),
        options.source,
        options.target,
        options.files,
    )
    _print_corpus(report)


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
    few = [f"{part} {report.pairs[part]:,}" for part in FEWEST if report.pairs[part] < FEWEST[part]]
    if few:
        click.echo(
            f"note: too few pairs for figures that mean anything: {', '.join(few)}; "
            f"at least {', '.join(f'{part} {n:,}' for part, n in FEWEST.items())}",
            err=True,
        )
    if report.near_copies:
        shares = ", ".join(f"{share:.1%} (>= {at})" for at, share in report.near_copies.items())
        click.echo(f"test sentences with a near copy in train, by similarity: {shares}")


@dataclass(frozen=True, kw_only=True)
class SelectOptions(ConfigOptions):
    """Options of `moses-bridge select`.

    Attributes:
        texts: Text to choose from, or two parallel ones.
        domain_texts: Text of the domain; give one per TEXT, in the same order.
        domain_models: N-gram model (ARPA) of the domain, instead of --domain; give one per TEXT, in the same
            order.
        general_models: N-gram model (ARPA) of general text; give one per --domain-model.
        outs: File for the chosen lines; give one per TEXT, in the same order.
        scores_out: File for the score of each line.
        lines: Number of lines to choose.
        share: Share of the lines to choose.
        words: Number of words to choose, counted in the first TEXT.
    """

    texts: Annotated[tuple[FileOrStdin, ...], ARGUMENT]
    domain_texts: Annotated[tuple[FileOrStdin, ...], option("--domain")] = ()
    domain_models: Annotated[tuple[FileOrStdin, ...], option("--domain-model")] = ()
    general_models: Annotated[tuple[FileOrStdin, ...], option("--general-model")] = ()
    outs: Annotated[tuple[FileOrStdout, ...], option("--out")] = ()
    scores_out: FileOrStdout | None = None
    lines: Annotated[int | None, option(key="n_lines")] = None
    share: Annotated[float | None, option(key="share")] = None
    words: Annotated[int | None, option(key="n_words")] = None

    def settings(self) -> SelectConfig:
        """The settings of a selection."""
        from moses_bridge.corpus.selection import SelectConfig

        return self.settings_of(SelectConfig)


@command
def select(options: SelectOptions) -> None:
    """Choose the lines of texts that are closest to a domain.

    TEXTS are one text or two parallel ones. Lines are ranked by the difference of cross-entropies (Moore and
    Lewis, 2010); for parallel texts the differences of both sides are added (Axelrod et al., 2011).

    \b
    Example:
      moses-bridge select corpus/train.en corpus/train.fr --domain corpus/dev.en \\
          --domain corpus/dev.fr --out best.en --out best.fr --share 0.4 --scores-out scores.gz
    """
    from moses_bridge.corpus.selection import Domain, select_text

    domain = Domain(options.domain_texts, options.domain_models, options.general_models)
    report = select_text(
        options.texts, domain, options.settings(), options.outs, options.scores_out
    )
    click.echo(
        f"{report.n_chosen:,} of {report.n_lines:,} lines chosen, "
        f"{report.n_chosen_words:,} of {report.n_words:,} words of {options.texts[0]}",
        err=True,
    )


@command
def folds(
    prefix: Annotated[
        Prefix,
        option("--corpus"),
        "Common prefix of two tokenised texts: corpus/train for corpus/train.en and corpus/train.fr.",
    ],
    languages: Languages,
    out: Annotated[OutputDirectory, "Directory for the folds."],
    groups: Annotated[
        FileOrStdin | None,
        "Document of each sentence, one name per line; each document is in one fold.  "
        "[default: folds are contiguous pieces]",
    ] = None,
    links: Annotated[FileOrStdin | None, "Word alignment of the text in Pharaoh format."] = None,
    n_folds: Annotated[int, AtLeast(2), option("--folds"), "Number of folds."] = 10,
    seed: Annotated[Natural, "Seed of the choice of documents."] = 1,
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

    source, target = languages.source_language, languages.target_language
    text = FoldedText(prefix, source, target, groups, links)
    sizes = cut_folds(text, out, n_folds, seed)
    click.echo(f"sentences of each fold: {', '.join(f'{size:,}' for size in sizes)}")


@command
def join_folds(
    folds: Annotated[FileOrStdin, ARGUMENT],
    nbest: Annotated[tuple[FileOrStdin, ...], ARGUMENT],
    out: Annotated[FileOrStdout, "N-best list to write; the suffix chooses the compression."],
) -> None:
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
