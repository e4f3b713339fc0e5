"""Commands that decode: translate, decode, score-nbest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.choices import DecoderKind
from moses_bridge.base.command import command
from moses_bridge.base.options import (
    ARGUMENT,
    STANDARD_STREAM,
    ConfigOptions,
    Directory,
    FileOrStdin,
    FileOrStdout,
    JobsOptions,
    Positive,
    Prefix,
    option,
)
from moses_bridge.decoding.translate_config import TranslateConfig

if TYPE_CHECKING:
    from moses_bridge.decoding.interface import DecoderConfig


@dataclass(frozen=True, kw_only=True)
class DecodeOptions(JobsOptions, ConfigOptions):
    """Options of `moses-bridge decode`.

    Attributes:
        ini: moses.ini that names the tables and weights.
        source: Tokenised text, one sentence per line.
        out: File for the translations. [default: standard output]
        nbest: N-best list to write, of distinct translations.
        nbest_size: Largest number of translations per sentence in --nbest.
        decoder: Decoder to use; auto is Moses if `moses` is on the PATH, else the built-in one.
        stack: Number of hypotheses kept per stack.
        cube_pruning_pop_limit: Number of hypotheses made per stack.
        weights: Weights to use instead of those in the ini: JSON, {"LM0": [0.5], ...}, a weights.json of
            tuning, or another moses.ini.
        neural_lms: NAME=COMMAND, a neural model to use in the built-in decoder: "CSLM0=rescorer serve cslm";
            may be given several times.
        constrain: Translations to force, one line per sentence. The output line is empty where that is
            impossible.
    """

    ini: FileOrStdin
    source: FileOrStdin
    out: FileOrStdout = STANDARD_STREAM
    nbest: FileOrStdout | None = None
    nbest_size: Positive = 100
    decoder: Annotated[DecoderKind | None, option(key="kind")] = None
    stack: Annotated[Positive | None, option(key="stack_size")] = None
    cube_pruning_pop_limit: Annotated[Positive | None, option(key="pop_limit")] = None
    weights: FileOrStdin | None = None
    neural_lms: Annotated[tuple[str, ...], option("--neural-lm", key="neural_lm")] = ()
    constrain: FileOrStdin | None = None

    def settings(self) -> DecoderConfig:
        """The settings of the decoder."""
        from moses_bridge.decoding.interface import DecoderConfig

        return self.settings_of(DecoderConfig)


@command
def decode(options: DecodeOptions) -> None:
    """Decode a tokenised text by Moses or the built-in decoder.

    Moses is used if it is installed.

    \b
    Example:
      moses-bridge decode --ini filtered/moses.ini --source corpus/test.en --out test.out \\
          --nbest test.nbest.gz --nbest-size 100
    """
    from moses_bridge.base.textio import is_stream
    from moses_bridge.decoding.decoder import open_decoder
    from moses_bridge.decoding.interface import refuse_model_files
    from moses_bridge.formats.moses_ini import read_ini
    from moses_bridge.formats.text_notes import say_notes
    from moses_bridge.formats.weights import weights_over_ini

    config, ini, jobs = options.settings(), options.ini, options.jobs
    source, out, nbest = options.source, options.out, options.nbest
    overwrite = weights_over_ini(options.weights, ini) if options.weights else None
    if options.constrain is not None:
        from moses_bridge.decoding.given_translations import force_translations

        report = force_translations(
            ini, config, jobs, source, options.constrain, out, overwrite, nbest
        )
        click.echo(f"{report.n_missed} of {report.n_lines} translations cannot be made", err=True)
        return
    refuse_model_files(read_ini(ini), source, (out, nbest))
    with open_decoder(ini, config, jobs) as search:
        search.decode(source, out, overwrite, nbest, options.nbest_size)
    if not is_stream(source):  # that has been read
        say_notes(source, [])


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(TranslateConfig):
    """Options of `moses-bridge translate`.

    Attributes:
        system: Directory that `moses-bridge build`, `tuning tune` or `tuning run improve` wrote.
        texts: Plain text, one line per segment. [default: standard input]
        out: File for the translations. [default: standard output]
        nbest: File for several translations per sentence: line and sentence, from 1, total score, text, source
            and target words, and their links, separated by tabs.
        nbest_size: Largest number of translations per sentence in --nbest.
    """

    system: Annotated[Directory, ARGUMENT]
    texts: Annotated[tuple[FileOrStdin, ...], ARGUMENT] = ()
    out: FileOrStdout = STANDARD_STREAM
    nbest: FileOrStdout | None = None
    nbest_size: Positive = 10
    glossary: FileOrStdin | None = None
    ini: FileOrStdin | None = None
    corpus: Prefix | None = None


@command
def translate(options: TranslateOptions) -> None:
    """Translate plain text.

    It is tokenised and cased as the training text was, decoded by the built-in decoder with the weights and
    networks of the system, and made plain text again. Addresses, placeholders like %s and {x}, and numbers are
    copied. Standard input is translated line by line as it comes.

    \b
    Example:
      moses-bridge translate better page.txt --sentences --out page.fr.txt
    """
    from moses_bridge.decoding.text_translator import TextTranslator, translate_files

    texts = options.texts or [STANDARD_STREAM]
    with TextTranslator(options.system, options) as translator:
        translate_files(translator, texts, options.out, options.nbest, options.nbest_size)
        click.echo(translator.unknown_words.note(), err=True)


@command
def score_nbest(
    nbest: Annotated[FileOrStdin, ARGUMENT],
    ini: Annotated[FileOrStdin, "moses.ini that names the tables and weights."],
    source: Annotated[FileOrStdin, "Tokenised source text of the n-best list."],
    out: Annotated[FileOrStdout, "N-best list to write."],
    weights: Annotated[
        FileOrStdin | None,
        "Weights to use instead of those in the ini; see `moses-bridge decode --help`.",
    ] = None,
) -> None:
    """Recompute the features of an n-best list.

    They are those of another model for the same segmentation, which the list must have.

    \b
    Example:
      moses-bridge score-nbest test.nbest.gz --ini new/moses.ini --source test.en --out new.nbest.gz
    """
    from moses_bridge.decoding.given_translations import score_entries
    from moses_bridge.formats.weights import weights_over_ini

    score_entries(ini, source, nbest, out, weights_over_ini(weights, ini) if weights else None)
