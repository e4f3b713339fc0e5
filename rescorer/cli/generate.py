"""Commands that write targets of their own: generate, decode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.command import command
from moses_bridge.base.config import AtLeast
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.machine import loading
from moses_bridge.base.options import (
    ARGUMENT,
    STANDARD_STREAM,
    ExistingDirectory,
    FileOrStdin,
    FileOrStdout,
    InputFile,
    Natural,
    OutputFile,
    Positive,
    option,
)
from rescorer.cli.options import DeviceOptions
from rescorer.contract.choices import OutputFormat, reverses_sides

if TYPE_CHECKING:
    from rescorer.contract.target_generation import GenerationConfig


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """Options of the beam search for targets.

    Attributes:
        beam: Number of hypotheses kept at each length.
        length_penalty: ALPHA in the score log p / (number of words, including </s>)^ALPHA.
        max_words: Largest number of words of a target.
        no_unknown: Never generate <unk>.
    """

    beam: Positive = 10
    length_penalty: Annotated[float, AtLeast(0)] = 0.0
    max_words: Positive = 100
    no_unknown: bool = False

    def config(self, n: int) -> GenerationConfig:
        """The settings of a search for the n best targets."""
        from rescorer.contract.target_generation import GenerationConfig

        return GenerationConfig(
            n=n,
            beam=self.beam,
            length_penalty=self.length_penalty,
            max_words=self.max_words,
            unknown_words=not self.no_unknown,
        )


@dataclass(frozen=True, kw_only=True)
class GenerateOptions:
    """Options of `rescorer generate`.

    Attributes:
        model: Model directory.
        phrases: Text with one phrase per line.
        number: Number of targets of each phrase.
        sample: Draw targets at random instead of searching for the best.
        temperature: Temperature of --sample; below 1, likely words are drawn more often.
        seed: Seed of --sample.
        table: Phrase table to look the targets up in; the output says which of them it has.
        form: Output format.
        out: File to write; the suffix chooses the compression. [default: standard output]
    """

    model: Annotated[ExistingDirectory, ARGUMENT]
    phrases: Annotated[FileOrStdin, ARGUMENT] = STANDARD_STREAM
    number: Annotated[Positive, option("-n", "--number")] = 10
    sample: bool = False
    temperature: Annotated[float, click.FloatRange(min=0, min_open=True)] = 1.0
    seed: Natural = 1
    table: InputFile | None = None
    form: Annotated[OutputFormat, option("--format")] = "text"
    out: FileOrStdout = STANDARD_STREAM


@command
def generate(options: GenerateOptions, search: BeamOptions, device: DeviceOptions) -> None:
    """Generate the most probable targets of source phrases.

    With --sample they are drawn at random. Each has its log-probability. PHRASES has one source phrase per
    line; for a model with reversed sides, one target phrase. A language model continues each line instead,
    and a model from right to left puts words before it. An empty line gives whole sentences.

    Example: rescorer generate rnn phrases.en -n 5 --table model/phrase-table.gz
    """
    with loading():
        from rescorer.models.model_directory import generator_of_model, record_of_model
        from rescorer.views.generated_phrases import generate_phrases

    config = replace(
        search.config(options.number),
        sample=options.sample,
        temperature=options.temperature,
        seed=options.seed,
    )
    model, table = options.model, options.table
    if table is not None and reverses_sides(record_of_model(model).reading):
        raise ConfigError(f"{model} generates sources of target phrases: leave --table out")
    generator = generator_of_model(model, device.compute, device.trust_code)
    phrases, out = str(options.phrases), str(options.out)
    generate_phrases(generator, phrases, config, out, options.form, table)


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """Options of `rescorer decode`.

    Attributes:
        model: Model directory.
        text: Tokenised text, one sentence per line.
        out: File for the translations. [default: standard output]
        nbest: N-best list to write, of distinct translations; the suffix chooses the compression.
        nbest_size: Largest number of translations per sentence in --nbest.
        feature: Name of the feature in --nbest, log p.
        lexicon: Translations of unknown words: lex.f2e from the training of Moses.
    """

    model: Annotated[ExistingDirectory, ARGUMENT]
    text: Annotated[FileOrStdin, ARGUMENT]
    out: FileOrStdout = STANDARD_STREAM
    nbest: OutputFile | None = None
    nbest_size: Positive = 100
    feature: str = "NN0"
    lexicon: InputFile | None = None


@command
def decode(options: DecodeOptions, search: BeamOptions, device: DeviceOptions) -> None:
    """Decode tokenised sentences with a network alone.

    If the network has an attention, <unk> is replaced by the source word with the largest weight, or by its
    translation in the lexicon. Otherwise it is replaced by a word of the lexicon, or stays.

    Example: rescorer decode rnn test.en --out test.rnn.fr --nbest test.nbest.gz --nbest-size 20
    """
    with loading():
        from rescorer.models.model_directory import translator_of_model
        from rescorer.views.translation import NO_LEXICON, NBestOutput, read_lexicon, translate

    generator = translator_of_model(options.model, device.compute, device.trust_code)
    target_words, lexicon = generator.shortlists.target, options.lexicon
    words = read_lexicon(lexicon, target_words) if lexicon else NO_LEXICON
    lists = NBestOutput(str(options.nbest), options.feature) if options.nbest else None
    text, out = str(options.text), str(options.out)
    n_unknown = translate(generator, text, search.config(options.nbest_size), out, lists, words)
    click.echo(f"{n_unknown} <unk> left in the translations", err=True)
