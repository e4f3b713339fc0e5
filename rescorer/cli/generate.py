"""Commands that write targets of their own: generate, translate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.command import EXISTING_DIRECTORY, FILE_OR_STDIN, INPUT_FILE, command
from moses_bridge.base.errors import ConfigError
from rescorer.cli.options import DEVICE, FORM, TRUST_CODE

if TYPE_CHECKING:
    from rescorer.contract.compute import Device
    from rescorer.views.generated_phrases import OutputFormat


BEAM = click.option(
    "--beam",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Hypotheses that are kept at each length.",
)
LENGTH_PENALTY = click.option(
    "--length-penalty",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="ALPHA of the score log p / (words with </s>)^ALPHA.",
)
MAX_WORDS = click.option(
    "--max-words", type=click.IntRange(min=1), default=100, show_default=True, help="Of a target."
)
NO_UNKNOWN = click.option("--no-unknown", is_flag=True, help="No <unk> among the words.")


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@click.argument("phrases", type=FILE_OR_STDIN, default="-")
@click.option(
    "--n", type=click.IntRange(min=1), default=10, show_default=True, help="Targets of each."
)
@BEAM
@click.option("--sample", is_flag=True, help="Draw targets instead of searching for the best.")
@click.option(
    "--temperature",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Of draws; below 1 likely words are drawn more often.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of --sample."
)
@LENGTH_PENALTY
@MAX_WORDS
@NO_UNKNOWN
@click.option("--table", type=INPUT_FILE, help="Phrase table: tell whether a target stands in it.")
@FORM
@click.option(
    "--out", default="-", help="File to write, compressed by suffix.  [default: standard output]"
)
@TRUST_CODE
@DEVICE
def generate(
    model: Path,
    phrases: str,
    n: int,
    beam: int,
    sample: bool,
    temperature: float,
    seed: int,
    length_penalty: float,
    max_words: int,
    no_unknown: bool,
    table: Path | None,
    form: OutputFormat,
    out: str,
    trust_code: bool,
    device: Device,
) -> None:
    """Write the targets that a network prefers, or draws, for source phrases, with log-probabilities.

    PHRASES has one source phrase a line, or one target phrase for a model with reversed sides. A language
    model, which sees no source, continues the lines instead (one from right to left puts words before them): an
    empty one gives whole sentences.

    Example: rescorer generate rnn phrases.en --n 5 --table model/phrase-table.gz
    """
    from rescorer.contract.compute import Compute
    from rescorer.contract.target_generation import GenerationConfig
    from rescorer.models.model_directory import generator_of_model, reverses_sides
    from rescorer.views.generated_phrases import generate_phrases

    config = GenerationConfig(
        n=n,
        beam=beam,
        sample=sample,
        temperature=temperature,
        length_penalty=length_penalty,
        max_words=max_words,
        unknown_words=not no_unknown,
        seed=seed,
    )
    if table is not None and reverses_sides(model):
        raise ConfigError(f"{model} generates sources of target phrases: leave --table out")
    generator = generator_of_model(model, Compute(device=device), trust_code)
    generate_phrases(generator, phrases, config, out, form, table)


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@click.argument("text", type=FILE_OR_STDIN)
@click.option("--out", default="-", help="Translations to write.  [default: standard output]")
@click.option("--nbest", help="N-best list to write, compressed by suffix: different translations.")
@click.option("--nbest-size", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--feature", default="NN0", show_default=True, help="Its name for log p.")
@BEAM
@LENGTH_PENALTY
@MAX_WORDS
@NO_UNKNOWN
@click.option("--lexicon", type=INPUT_FILE, help="lex.f2e of Moses's training, for <unk>.")
@TRUST_CODE
@DEVICE
def translate(
    model: Path,
    text: str,
    out: str,
    nbest: str | None,
    nbest_size: int,
    feature: str,
    beam: int,
    length_penalty: float,
    max_words: int,
    no_unknown: bool,
    lexicon: Path | None,
    trust_code: bool,
    device: Device,
) -> None:
    """Translate sentences with a network alone, without a phrase table.

    <unk> becomes the most attended source word where the network has an attention, or that word's
    translation in the lexicon. Without an attention it becomes a word of the lexicon, or stays.

    Example: rescorer translate rnn test.en --out test.rnn.fr --nbest test.nbest.gz --nbest-size 20
    """
    from rescorer.contract.compute import Compute
    from rescorer.contract.target_generation import GenerationConfig
    from rescorer.models.model_directory import translator_of_model
    from rescorer.models.unknown_words import NO_LEXICON, read_lexicon
    from rescorer.views.translation import NBestOutput
    from rescorer.views.translation import translate as run_translation

    config = GenerationConfig(
        n=nbest_size,
        beam=beam,
        length_penalty=length_penalty,
        max_words=max_words,
        unknown_words=not no_unknown,
    )
    generator = translator_of_model(model, Compute(device=device), trust_code)
    words = read_lexicon(lexicon, generator.shortlists.target) if lexicon else NO_LEXICON
    lists = NBestOutput(nbest, feature) if nbest else None
    n_unknown = run_translation(generator, text, config, out, lists, words)
    click.echo(f"{n_unknown} <unk> left in the translations", err=True)


COMMANDS = (
    generate,
    translate,
)
