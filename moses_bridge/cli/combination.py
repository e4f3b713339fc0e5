"""Commands making one model of several: combine (phrase tables), mix-models (language models)."""

from __future__ import annotations

from typing import Annotated

import click

from moses_bridge.base.choices import Combination, UnknownPhrases
from moses_bridge.base.command import command
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.options import ARGUMENT, FileOrStdin, FileOrStdout


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


COMMANDS = (combine, mix_models)
