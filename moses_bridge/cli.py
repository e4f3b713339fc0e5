"""The command moses-bridge: a thin shell over one public function for each verb."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import cast

import click

from moses_bridge.command import CommandGroup
from moses_bridge.config import load_config

READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
ANY_PATH = click.Path(path_type=Path)
CONFIG = click.option(
    "--config", type=READABLE, help="Settings in TOML; an unknown key is an error."
)
JOBS = click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, help="Processes to run."
)


@click.group(cls=CommandGroup)
def main() -> None:
    """Corpora, phrase tables and translations in Moses's formats, with or without Moses."""


@main.command()
@click.option("--source", required=True, help="Source language, as apt names it.")
@click.option("--target", required=True, help="Target language, as apt names it.")
@click.option("--out", type=ANY_PATH, required=True, help="Directory for the parts.")
@click.option(
    "--from", "origin", type=click.Choice(["debian", "debian+libreoffice", "files"]), default=None
)
@click.option("--source-file", type=READABLE, help="Your own source text, one sentence a line.")
@click.option(
    "--target-file", type=READABLE, help="Your own target text, line by line as the source."
)
@CONFIG
@JOBS
def corpus(
    source: str,
    target: str,
    out: Path,
    origin: str | None,
    source_file: Path | None,
    target_file: Path | None,
    config: Path | None,
    jobs: int,
) -> None:
    """Make a tokenised, lowercased corpus in parts train, dev and test.

    Example: moses-bridge corpus --source en --target fr --out corpus
    """
    from moses_bridge.corpus import CorpusOptions, Origin, prepare_corpus

    options = dataclasses.replace(load_config(CorpusOptions, config), jobs=jobs)
    if source_file or target_file:
        origin = "files"
    if origin is not None:
        options = dataclasses.replace(options, origin=cast(Origin, origin))
    report = prepare_corpus(source, target, out, options, source_file, target_file)
    for part, n_pairs in report.pairs.items():
        words = f"{report.source_words[part]:,} and {report.target_words[part]:,} words"
        click.echo(f"{part}: {n_pairs:,} sentence pairs, {words}")


@main.command()
@click.option(
    "--corpus",
    "corpus_prefix",
    type=ANY_PATH,
    required=True,
    help="Prefix: train for train.en, train.fr.",
)
@click.option("--source", required=True, help="Suffix of the source text.")
@click.option("--target", required=True, help="Suffix of the target text.")
@click.option("--out", type=ANY_PATH, required=True, help="Directory for the model.")
@click.option("--links", type=READABLE, help="Word links that exist already, in Pharaoh format.")
@CONFIG
@JOBS
def build(
    corpus_prefix: Path,
    source: str,
    target: str,
    out: Path,
    links: Path | None,
    config: Path | None,
    jobs: int,
) -> None:
    """Align a corpus and make phrase table, reordering table, language model and moses.ini.

    Example: moses-bridge build --corpus corpus/train --source en --target fr --out model
    """
    from moses_bridge.build import BuildOptions, build_model

    build_model(corpus_prefix, source, target, out, load_config(BuildOptions, config), links, jobs)


@main.command(name="filter")
@click.option("--ini", type=READABLE, required=True, help="moses.ini of the whole model.")
@click.option("--input", "inputs", type=READABLE, required=True, multiple=True, help="Source text.")
@click.option("--out", type=ANY_PATH, required=True, help="Directory for moses.ini and tables.")
def filter_command(ini: Path, inputs: tuple[Path, ...], out: Path) -> None:
    """Keep the rows of the tables that the input can use.

    Example: moses-bridge filter --ini model/moses.ini --input dev.en --input test.en --out filtered
    """
    from moses_bridge.filter import filter_model

    filter_model(ini, inputs, out)


@main.command()
@click.argument("table", type=READABLE)
@click.option("--num-scores", type=click.IntRange(min=1), help="Dense scores of each row.")
def check(table: Path, num_scores: int | None) -> None:
    """Report every faulty row of a phrase table, and what is in it.

    Example: moses-bridge check model/phrase-table.gz --num-scores 4
    """
    from moses_bridge.check import check_table

    report = check_table(table, num_scores)
    for fault in report.faults:
        click.echo(str(fault), err=True)
    for line in report.summary():
        click.echo(line)
    sys.exit(1 if report.faults else 0)


@main.command()
@click.option("--ini", type=READABLE, required=True, help="moses.ini with tables and weights.")
@click.option(
    "--input", "source", type=READABLE, required=True, help="Source text, a sentence a line."
)
@click.option(
    "--output", type=ANY_PATH, default="-", help="Translations; standard output by default."
)
@click.option("--nbest", type=ANY_PATH, help="N-best list to write.")
@click.option("--nbest-size", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--decoder", type=click.Choice(["auto", "moses", "builtin"]), help="Which search.")
@click.option("--weights", type=READABLE, help='JSON of weights by name: {"LM0": [0.5], ...}.')
@CONFIG
@JOBS
def decode(
    ini: Path,
    source: Path,
    output: Path,
    nbest: Path | None,
    nbest_size: int,
    decoder: str | None,
    weights: Path | None,
    config: Path | None,
    jobs: int,
) -> None:
    """Translate, with Moses where it is installed, else with the built-in decoder.

    Example: moses-bridge decode --ini model/moses.ini --input test.en --output test.out
    """
    from moses_bridge.decoder import DecoderKind, DecoderOptions, open_decoder

    options = load_config(DecoderOptions, config)
    if decoder is not None:
        options = dataclasses.replace(options, kind=cast(DecoderKind, decoder))
    overwrite = json.loads(weights.read_text()) if weights else None
    with open_decoder(ini, options, jobs) as search:
        search.decode(source, output, overwrite, nbest, nbest_size)


@main.command(name="config")
@click.argument("experiment", type=READABLE)
@click.option("--out", type=ANY_PATH, required=True, help="Directory for one file a table.")
def config_command(experiment: Path, out: Path) -> None:
    """Take an experiment file apart: one file of settings for each command.

    Example: moses-bridge config experiment.toml --out config
    """
    from moses_bridge.experiment import split_experiment

    split_experiment(experiment, out)
