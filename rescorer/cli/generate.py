"""Commands that write targets of their own: generate, translate."""

from __future__ import annotations

from pathlib import Path

import click

from moses_bridge.base.command import (
    EXISTING_DIRECTORY,
    FILE_OR_STDIN,
    FILE_OR_STDOUT,
    INPUT_FILE,
    OUTPUT_FILE,
    command,
)
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.memory import loading
from rescorer.cli.options import DEVICE, FORM, TRUST_CODE
from rescorer.contract.choices import Device, OutputFormat

BEAM = click.option(
    "--beam",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of hypotheses kept at each length.",
)
LENGTH_PENALTY = click.option(
    "--length-penalty",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="ALPHA in the score log p / (number of words, including </s>)^ALPHA.",
)
MAX_WORDS = click.option(
    "--max-words",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Largest number of words of a target.",
)
NO_UNKNOWN = click.option("--no-unknown", is_flag=True, help="Never generate <unk>.")


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@click.argument("phrases", type=FILE_OR_STDIN, default="-")
@click.option(
    "-n",
    "--number",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of targets of each phrase.",
)
@BEAM
@click.option(
    "--sample", is_flag=True, help="Draw targets at random instead of searching for the best."
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Temperature of --sample; below 1, likely words are drawn more often.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of --sample."
)
@LENGTH_PENALTY
@MAX_WORDS
@NO_UNKNOWN
@click.option(
    "--table",
    type=INPUT_FILE,
    help="Phrase table; the output says for each target whether the table has it.",
)
@FORM
@click.option(
    "--out",
    type=FILE_OR_STDOUT,
    default="-",
    help="File to write; the suffix chooses the compression.  [default: standard output]",
)
@TRUST_CODE
@DEVICE
def generate(
    model: Path,
    phrases: Path,
    number: int,
    beam: int,
    sample: bool,
    temperature: float,
    seed: int,
    length_penalty: float,
    max_words: int,
    no_unknown: bool,
    table: Path | None,
    form: OutputFormat,
    out: Path,
    trust_code: bool,
    device: Device,
) -> None:
    """Generate the most probable targets of source phrases.

    With --sample they are drawn at random. Each has its log-probability. PHRASES has one source phrase per
    line; for a model with reversed sides, one target phrase. A language model continues each line instead,
    and a model from right to left puts words before it. An empty line gives whole sentences.

    Example: rescorer generate rnn phrases.en -n 5 --table model/phrase-table.gz
    """
    with loading():
        from rescorer.contract.compute import Compute
        from rescorer.contract.target_generation import GenerationConfig
        from rescorer.models.model_directory import generator_of_model, model_reverses_sides
        from rescorer.views.generated_phrases import generate_phrases

    config = GenerationConfig(
        n=number,
        beam=beam,
        sample=sample,
        temperature=temperature,
        length_penalty=length_penalty,
        max_words=max_words,
        unknown_words=not no_unknown,
        seed=seed,
    )
    if table is not None and model_reverses_sides(model):
        raise ConfigError(f"{model} generates sources of target phrases: leave --table out")
    generator = generator_of_model(model, Compute(device=device), trust_code)
    generate_phrases(generator, str(phrases), config, str(out), form, table)


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@click.argument("text", type=FILE_OR_STDIN)
@click.option(
    "--out",
    type=FILE_OR_STDOUT,
    default="-",
    help="File for the translations.  [default: standard output]",
)
@click.option(
    "--nbest",
    type=OUTPUT_FILE,
    help="N-best list to write, of distinct translations; the suffix chooses the compression.",
)
@click.option(
    "--nbest-size",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Largest number of translations per sentence in --nbest.",
)
@click.option(
    "--feature", default="NN0", show_default=True, help="Name of the feature in --nbest, log p."
)
@BEAM
@LENGTH_PENALTY
@MAX_WORDS
@NO_UNKNOWN
@click.option(
    "--lexicon",
    type=INPUT_FILE,
    help="Translations of unknown words: lex.f2e from the training of Moses.",
)
@TRUST_CODE
@DEVICE
def translate(
    model: Path,
    text: Path,
    out: Path,
    nbest: Path | None,
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
    """Translate sentences with a network alone.

    If the network has an attention, <unk> is replaced by the source word with the largest weight, or by its
    translation in the lexicon. Otherwise it is replaced by a word of the lexicon, or stays.

    Example: rescorer translate rnn test.en --out test.rnn.fr --nbest test.nbest.gz --nbest-size 20
    """
    with loading():
        from rescorer.contract.compute import Compute
        from rescorer.contract.target_generation import GenerationConfig
        from rescorer.models.model_directory import translator_of_model
        from rescorer.views.translation import NO_LEXICON, NBestOutput, read_lexicon
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
    lists = NBestOutput(str(nbest), feature) if nbest else None
    n_unknown = run_translation(generator, str(text), config, str(out), lists, words)
    click.echo(f"{n_unknown} <unk> left in the translations", err=True)


COMMANDS = (
    generate,
    translate,
)
