"""Commands that look into networks: neighbors, preferences, map, perplexity, align."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.command import (
    EXISTING_DIRECTORY,
    FILE_OR_STDOUT,
    INPUT_FILE,
    OUTPUT_DIRECTORY,
    OUTPUT_FILE,
    Command,
    choice_of,
    command,
)
from moses_bridge.base.config import with_options
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.memory import loading
from rescorer.cli.options import (
    DEVICE,
    FORM,
    MODEL_FILE_OR_DIRECTORY,
    PRECISION,
    TRUST_CODE,
    UNNORMALIZED,
    pretrained_options,
    pretrained_settings,
)
from rescorer.contract.choices import Colour, Device, MapKind, OutputFormat, Precision, Side

if TYPE_CHECKING:
    from rescorer.contract.compute import Compute
    from rescorer.contract.scorer import NamedScorer


SIDE = click.option(
    "--side",
    type=choice_of(Side),
    default="source",
    show_default=True,
    help="Language of the words and phrases; the network must read it.",
)
NUMBER = click.option(
    "-n",
    "--number",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of neighbours of each word and phrase.",
)


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@click.argument("table", type=INPUT_FILE, required=False)
@click.option(
    "--word",
    "words",
    multiple=True,
    help="Word whose neighbours to print; may be given several times.",
)
@click.option(
    "--phrase",
    "phrases",
    multiple=True,
    help="Phrase whose neighbours in TABLE to print; may be given several times.",
)
@SIDE
@NUMBER
@click.option(
    "--cache",
    type=OUTPUT_DIRECTORY,
    help="Directory in which to keep the encoded phrases of the table for later calls.",
)
@FORM
@TRUST_CODE
@PRECISION
@DEVICE
def neighbors(
    model: Path,
    table: Path | None,
    words: tuple[str, ...],
    phrases: tuple[str, ...],
    side: Side,
    number: int,
    cache: Path | None,
    form: OutputFormat,
    trust_code: bool,
    precision: Precision,
    device: Device,
) -> None:
    """Print the nearest words and phrases.

    Words are compared by the cosine of their embeddings, phrases by that of their summaries. TABLE is the
    phrase table whose phrases are searched; words need none.

    Example: rescorer neighbors rnn model/phrase-table.gz --word house --phrase "of the"
    """
    with loading():
        from rescorer.contract.compute import Compute
        from rescorer.views.learned import Learned
        from rescorer.views.neighbors import phrase_neighbors, word_neighbors

    if not words and not phrases:
        raise ConfigError("nothing is asked for: name a --word or a --phrase")
    learned, found = Learned.load(model, trust_code), []
    if words:
        found += word_neighbors(learned, list(map(os.fsencode, words)), side, number)
    if phrases:
        if table is None:
            raise ConfigError(
                "neighbours of a phrase are sought in a table: name it behind the model"
            )
        asked = list(map(os.fsencode, phrases))
        compute = Compute(precision, device)
        found += phrase_neighbors(learned, asked, table, side, number, cache, compute)
    for near in found if form == "text" else ():
        click.echo(str(near))
    if form == "json":
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


@command
@click.argument("table", type=INPUT_FILE)
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    metavar="NAME=DIR",
    help="Model directory and its name in the output; may be given several times.",
)
@click.option(
    "--min-words", type=int, help="Smallest number of words of a source phrase.  [default: 4]"
)
@click.option(
    "--min-targets", type=int, help="Smallest number of targets of a source phrase.  [default: 3]"
)
@click.option(
    "--share",
    type=float,
    help="Share of the source phrases that counts as frequent, and as rare.  [default: 0.1]",
)
@click.option("--phrases", type=int, help="Number of phrases to draw of each kind.  [default: 10]")
@click.option(
    "-n", "--number", type=int, help="Number of targets to show for each phrase.  [default: 3]"
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the draw.")
@click.option(
    "--out",
    "outs",
    multiple=True,
    type=OUTPUT_FILE,
    help="File to write, .md or .json; may be given several times. Without it, Markdown is "
    "printed.",
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
    number: int | None,
    seed: int,
    outs: tuple[Path, ...],
    unnormalized: bool,
    trust_code: bool,
    precision: Precision,
    device: Device,
) -> None:
    """Show which targets the table and the models prefer.

    They are asked for a sample of long source phrases, frequent and rare ones.

    Example: rescorer preferences model/phrase-table.gz --model RNN=rnn --out preferences.md
    """
    with loading():
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
        "n_best": number,
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


@click.command("map", cls=Command)
@click.argument("model", type=EXISTING_DIRECTORY)
@click.argument("table", type=INPUT_FILE)
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for the maps.")
@click.option(
    "--kind",
    "kinds",
    type=choice_of(MapKind),
    multiple=True,
    help="Map to draw; may be given several times.  [default: all for which the model has vectors]",
)
@SIDE
@click.option("--words", type=int, help="Number of words on the map.  [default: 1000]")
@click.option("--phrases", type=int, help="Number of phrases on the map.  [default: 2000]")
@click.option(
    "--color",
    "colour",
    type=choice_of(Colour),
    default="length",
    show_default=True,
    help="What the colour of a phrase shows.",
)
@click.option("--zooms", type=int, help="Number of close-ups to draw.  [default: 3]")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the sample and of the layout."
)
@TRUST_CODE
@PRECISION
@DEVICE
def draw_map(
    model: Path,
    table: Path,
    out: Path,
    kinds: tuple[MapKind, ...],
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
    """Draw maps of words and phrases by t-SNE.

    It also prints how often neighbours belong together.

    Example: rescorer map rnn model/phrase-table.gz --out maps
    """
    with loading():
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


@command
@click.argument("models", type=MODEL_FILE_OR_DIRECTORY, nargs=-1, required=True)
@click.argument("text", type=INPUT_FILE)
@click.option("--source", type=INPUT_FILE, help="Source text, for models that read it.")
@click.option(
    "--links", type=INPUT_FILE, help="Word alignment in Pharaoh format, for models that need it."
)
@pretrained_options
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
    """Print the perplexity of models on a target text.

    It is per word, with and without unknown words. MODELS are model directories, ARPA files, binary files of
    KenLM, and pretrained models (hf:DIRECTORY, hf-lm:DIRECTORY, ct2:DIRECTORY). </s> counts as a word.

    Example: rescorer perplexity rnn_lm cslm model/lm.arpa.gz dev.fr
    """
    with loading():
        from rescorer.contract.compute import Compute
        from rescorer.contract.training import Data
        from rescorer.models.scorer_choice import refuse_settings
        from rescorer.views.perplexity import load_text_model, perplexities

    compute = Compute(precision, device)
    settings = pretrained_settings()
    refuse_settings(models, settings)
    loaded = [load_text_model(path, compute, trust_code, settings) for path in models]
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
            raise ConfigError(f"--draw {text!r}: write numbers from 1 with commas, as in 1,2,5")
    return [int(part) for part in parts]


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@click.argument("source", type=INPUT_FILE)
@click.argument("target", type=INPUT_FILE)
@click.option(
    "--out",
    type=FILE_OR_STDOUT,
    default="-",
    help="File for the word links.  [default: standard output]",
)
@click.option(
    "--matrix",
    type=OUTPUT_FILE,
    help="File for all attention weights, in JSON lines; the suffix chooses the compression.",
)
@click.option(
    "--pictures",
    type=OUTPUT_DIRECTORY,
    help="Directory for pictures of the sentence pairs in --draw.",
)
@click.option(
    "--draw", metavar="N,N,...", help="Numbers of the sentence pairs to draw, counted from 1."
)
@click.option(
    "--links", type=INPUT_FILE, help="Word links to compare with; prints the alignment error rate."
)
@click.option(
    "--min-weight",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Smallest attention weight of a link.",
)
@TRUST_CODE
@DEVICE
def align(
    model: Path,
    source: Path,
    target: Path,
    out: Path,
    matrix: Path | None,
    pictures: Path | None,
    draw: str | None,
    links: Path | None,
    min_weight: float,
    trust_code: bool,
    device: Device,
) -> None:
    """Align the words of parallel text by attention.

    Each target word is linked to the source word with the largest weight, or to none if that is </s>.

    Example: rescorer align rnnsearch dev.en dev.fr --out dev.links --pictures attention --draw 1,2,5
    """
    with loading():
        from rescorer.contract.compute import Compute
        from rescorer.views.alignment import (
            AttentionPictures,
            attention_reader_of_model,
            read_pairs,
        )
        from rescorer.views.alignment import align as align_pairs

    numbers = _line_numbers(draw)
    if bool(numbers) != (pictures is not None):
        raise ConfigError("pictures need both --pictures DIR and --draw")
    pairs = read_pairs(source, target, links)
    reader = attention_reader_of_model(model, Compute(device=device), trust_code)
    drawn = None if pictures is None else AttentionPictures(pictures, numbers)
    error = align_pairs(
        reader, pairs, str(out), None if matrix is None else str(matrix), drawn, min_weight
    )
    if error is not None:
        click.echo(f"{links}: {error}", err=True)


COMMANDS = (
    neighbors,
    preferences,
    draw_map,
    perplexity,
    align,
)
