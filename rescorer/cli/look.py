"""Commands that look into networks: neighbors, preferences, map, perplexity, align."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.command import command
from moses_bridge.base.config import with_options
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.machine import loading
from moses_bridge.base.options import (
    ARGUMENT,
    STANDARD_STREAM,
    ExistingDirectory,
    FileOrStdout,
    InputFile,
    OutputDirectory,
    OutputFile,
    Positive,
    keys_set_by,
    option,
)
from rescorer.cli.options import (
    ComputeOptions,
    DeviceOptions,
    Format,
    ModelFileOrDirectory,
    RawComputeOptions,
)
from rescorer.contract.choices import Colour, MapKind, OutputFormat, Side
from rescorer.models.pretrained.settings import PretrainedSettings

if TYPE_CHECKING:
    from rescorer.contract.compute import Compute
    from rescorer.contract.scorer import NamedScorer


@dataclass(frozen=True, kw_only=True)
class NeighborOptions:
    """Options of `rescorer neighbors`.

    Attributes:
        model: Model directory.
        table: Phrase table whose phrases are searched.
        words: Word whose neighbours to print; may be given several times.
        phrases: Phrase whose neighbours in TABLE to print; may be given several times.
        side: Language of the words and phrases; the network must read it.
        number: Number of neighbours of each word and phrase.
        cache: Directory in which to keep the encoded phrases of the table for later calls.
        form: Output format.
    """

    model: Annotated[ExistingDirectory, ARGUMENT]
    table: Annotated[InputFile | None, ARGUMENT] = None
    words: Annotated[tuple[str, ...], option("--word")] = ()
    phrases: Annotated[tuple[str, ...], option("--phrase")] = ()
    side: Side = "source"
    number: Annotated[Positive, option("-n", "--number")] = 10
    cache: OutputDirectory | None = None
    form: Annotated[OutputFormat, option("--format")] = "text"


@command
def neighbors(options: NeighborOptions, computing: ComputeOptions) -> None:
    """Print the nearest words and phrases.

    Words are compared by the cosine of their embeddings, phrases by that of their summaries. TABLE is the
    phrase table whose phrases are searched; words need none.

    Example: rescorer neighbors rnn model/phrase-table.gz --word house --phrase "of the"
    """
    with loading():
        from rescorer.models.learned import Learned
        from rescorer.views.neighbors import phrase_neighbors, word_neighbors

    table, side, number = options.table, options.side, options.number
    words, phrases = (list(map(os.fsencode, texts)) for texts in (options.words, options.phrases))
    if not words and not phrases:
        raise ConfigError("nothing is asked for: name a --word or a --phrase")
    learned, found = Learned.load(options.model, computing.trust_code), []
    if words:
        found += word_neighbors(learned, words, side, number)
    if phrases:
        if table is None:
            raise ConfigError(
                "neighbours of a phrase are sought in a table: name it behind the model"
            )
        compute = computing.compute
        found += phrase_neighbors(learned, phrases, table, side, number, options.cache, compute)
    for near in found if options.form == "text" else ():
        click.echo(str(near))
    if options.form == "json":
        click.echo(json.dumps([near.as_json for near in found], indent=1))


def _scorers(models: tuple[str, ...], compute: Compute, trust_code: bool) -> list[NamedScorer]:
    from rescorer.models.model_directory import scorer_of_model

    named: dict[str, Path] = {}
    for model in models:
        name, equals, directory = model.partition("=")
        if not (name and equals and directory):
            raise ConfigError(f"--model {model!r}: write NAME=DIR, as in RNN=rnn")
        if name in named:
            raise ConfigError(f"--model {model!r}: the name {name!r} stands twice")
        named[name] = Path(directory)
    return [
        dataclasses.replace(scorer_of_model(directory, compute, trust_code), name=name)
        for name, directory in named.items()
    ]


@dataclass(frozen=True, kw_only=True)
class PreferenceOptions:
    """Options of `rescorer preferences`.

    Attributes:
        table: Phrase table.
        models: Model directory and its name in the output; may be given several times.
        min_words: Smallest number of words of a source phrase. [default: 4]
        min_targets: Smallest number of targets of a source phrase. [default: 3]
        share: Share of the source phrases that counts as frequent, and as rare. [default: 0.1]
        phrases: Number of phrases to draw of each kind. [default: 10]
        number: Number of targets to show for each phrase. [default: 3]
        seed: Seed of the draw.
        outs: File to write, .md or .json; may be given several times. Without it, Markdown is printed.
    """

    table: Annotated[InputFile, ARGUMENT]
    models: Annotated[tuple[str, ...], option("--model", metavar="NAME=DIR")]
    min_words: Annotated[int | None, option(key="min_words")] = None
    min_targets: Annotated[int | None, option(key="min_targets")] = None
    share: Annotated[float | None, option(key="share")] = None
    phrases: Annotated[int | None, option(key="n_phrases")] = None
    number: Annotated[int | None, option("-n", "--number", key="n_best")] = None
    seed: int = 1
    outs: Annotated[tuple[OutputFile, ...], option("--out")] = ()


@command
def preferences(options: PreferenceOptions, computing: RawComputeOptions) -> None:
    """Show which targets the table and the models prefer.

    They are asked for a sample of long source phrases, frequent and rare ones.

    Example: rescorer preferences model/phrase-table.gz --model RNN=rnn --out preferences.md
    """
    with loading():
        from rescorer.views.preferences import (
            PreferencesConfig,
            check_names,
            to_markdown,
            write_preferences,
        )
        from rescorer.views.preferences import preferences as draw

    check_names(options.outs)
    config = with_options(PreferencesConfig(seed=options.seed), keys_set_by(options))
    scorers = _scorers(options.models, computing.compute, computing.trust_code)
    result = draw(options.table, scorers, config)
    write_preferences(result, options.outs)
    if not options.outs:
        click.echo(to_markdown(result), nl=False)


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """Options of `rescorer map`.

    Attributes:
        model: Model directory.
        table: Phrase table.
        out: Directory for the maps.
        kinds: Map to draw; may be given several times. [default: all for which the model has vectors]
        side: Language of the words and phrases; the network must read it.
        words: Number of words on the map. [default: 1000]
        phrases: Number of phrases on the map. [default: 2000]
        colour: What the colour of a phrase shows.
        zooms: Number of close-ups to draw. [default: 3]
        seed: Seed of the sample and of the layout.
    """

    model: Annotated[ExistingDirectory, ARGUMENT]
    table: Annotated[InputFile, ARGUMENT]
    out: OutputDirectory
    kinds: Annotated[tuple[MapKind, ...], option("--kind")] = ()
    side: Side = "source"
    words: Annotated[int | None, option(key="n_words")] = None
    phrases: Annotated[int | None, option(key="n_phrases")] = None
    colour: Annotated[Colour, option("--color")] = "length"
    zooms: Annotated[int | None, option(key="n_zooms")] = None
    seed: int = 1


@command
def map_command(options: MapOptions, computing: ComputeOptions) -> None:
    """Draw maps of words and phrases by t-SNE.

    It also prints how often neighbours belong together.

    Example: rescorer map rnn model/phrase-table.gz --out maps
    """
    with loading():
        from rescorer.models.learned import Learned
        from rescorer.views.maps import MapConfig, draw_maps, kinds_of

    fixed = MapConfig(side=options.side, colour=options.colour, seed=options.seed)
    config = with_options(fixed, keys_set_by(options))
    learned = Learned.load(options.model, computing.trust_code)
    kinds = options.kinds or kinds_of(learned)
    maps = draw_maps(learned, options.table, options.out, kinds, config, computing.compute)
    for made in maps:
        for row in made.purity:
            click.echo(f"{made.points.kind}: {row}")


@command
def perplexity(
    models: Annotated[tuple[ModelFileOrDirectory, ...], ARGUMENT],
    text: Annotated[InputFile, ARGUMENT],
    pretrained: PretrainedSettings,
    computing: ComputeOptions,
    source: Annotated[InputFile | None, "Source text, for models that read it."] = None,
    links: Annotated[
        InputFile | None, "Word alignment in Pharaoh format, for models that need it."
    ] = None,
    form: Format = "text",
) -> None:
    """Print the perplexity of models on a target text.

    It is per word, with and without unknown words. MODELS are model directories, ARPA files, binary files of
    KenLM, and pretrained models (KIND:DIRECTORY, see docs/pretrained.md). </s> counts as a word.

    Example: rescorer perplexity rnn_lm cslm model/lm.arpa.gz dev.fr
    """
    with loading():
        from rescorer.contract.training import Data
        from rescorer.models.scorer_choice import refuse_settings
        from rescorer.views.perplexity import load_text_model, perplexities

    refuse_settings(models, pretrained)
    compute, trust_code = computing.compute, computing.trust_code
    loaded = [load_text_model(path, compute, trust_code, pretrained) for path in models]
    report = perplexities(loaded, Data(text, source, links))
    click.echo(json.dumps(dataclasses.asdict(report), indent=1) if form == "json" else str(report))


def _line_numbers(text: str | None) -> list[int]:
    """The numbers of 1,2,5."""
    parts = [] if text is None else text.split(",")
    for part in parts:
        if not (part.isascii() and part.isdigit() and int(part)):
            raise ConfigError(f"--draw {text!r}: write numbers from 1 with commas, as in 1,2,5")
    return [int(part) for part in parts]


@dataclass(frozen=True, kw_only=True)
class AlignOptions:
    """Options of `rescorer align`.

    Attributes:
        model: Model directory of a network with an attention.
        source: Tokenised source text.
        target: Tokenised target text.
        out: File for the word links. [default: standard output]
        matrix: File for all attention weights, in JSON lines; the suffix chooses the compression.
        pictures: Directory for pictures of the sentence pairs in --draw.
        draw: Numbers of the sentence pairs to draw, counted from 1.
        links: Word links to compare with; the alignment error rate is printed.
        min_weight: Smallest attention weight of a link.
    """

    model: Annotated[ExistingDirectory, ARGUMENT]
    source: Annotated[InputFile, ARGUMENT]
    target: Annotated[InputFile, ARGUMENT]
    out: FileOrStdout = STANDARD_STREAM
    matrix: OutputFile | None = None
    pictures: OutputDirectory | None = None
    draw: Annotated[str | None, option(metavar="N,N,...")] = None
    links: InputFile | None = None
    min_weight: Annotated[float, click.FloatRange(0, 1)] = 0.0


@command
def align(options: AlignOptions, device: DeviceOptions) -> None:
    """Align the words of parallel text by attention.

    Each target word is linked to the source word with the largest weight, or to none if that is </s>.

    Example: rescorer align rnnsearch dev.en dev.fr --out dev.links --pictures attention --draw 1,2,5
    """
    with loading():
        from rescorer.views.alignment import (
            AttentionPictures,
            attention_reader_of_model,
            read_pairs,
        )
        from rescorer.views.alignment import align as align_pairs

    pictures, matrix = options.pictures, options.matrix
    numbers = _line_numbers(options.draw)
    if bool(numbers) != (pictures is not None):
        raise ConfigError("pictures need both --pictures DIR and --draw")
    pairs = read_pairs(options.source, options.target, options.links)
    reader = attention_reader_of_model(options.model, device.compute, device.trust_code)
    drawn = None if pictures is None else AttentionPictures(pictures, numbers)
    weights_out = None if matrix is None else str(matrix)
    error = align_pairs(reader, pairs, str(options.out), weights_out, drawn, options.min_weight)
    if error is not None:
        click.echo(f"{options.links}: {error}", err=True)
