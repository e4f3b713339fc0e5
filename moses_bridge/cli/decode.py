"""Commands that decode: decode, score-nbest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.choices import DecoderKind
from moses_bridge.base.command import (
    FILE_OR_STDIN,
    FILE_OR_STDOUT,
    JOBS,
    choice_of,
    command,
    config_options,
)
from moses_bridge.base.config import load_config, with_options

if TYPE_CHECKING:
    from moses_bridge.decoding.decoder import DecoderConfig


def _decoder_settings(
    config: Path | None,
    decoder: str | None,
    stack: int | None,
    cube_pruning_pop_limit: int | None,
    neural_lms: tuple[str, ...],
) -> DecoderConfig:
    """The settings of `moses-bridge decode`."""
    from moses_bridge.decoding.decoder import DecoderConfig

    options = {
        "kind": decoder,
        "stack_size": stack,
        "pop_limit": cube_pruning_pop_limit,
        "neural_lm": [*neural_lms] or None,
    }
    return with_options(load_config(DecoderConfig, config), options)


@command
@click.option(
    "--ini", type=FILE_OR_STDIN, required=True, help="moses.ini that names the tables and weights."
)
@click.option(
    "--source",
    type=FILE_OR_STDIN,
    required=True,
    help="Tokenised text, one sentence per line.",
)
@click.option(
    "--out",
    type=FILE_OR_STDOUT,
    default="-",
    help="File for the translations.  [default: standard output]",
)
@click.option(
    "--nbest", type=FILE_OR_STDOUT, help="N-best list to write, of distinct translations."
)
@click.option(
    "--nbest-size",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Largest number of translations per sentence in --nbest.",
)
@click.option(
    "--decoder",
    type=choice_of(DecoderKind),
    help="Decoder to use; auto is Moses if `moses` is on the PATH, else the built-in one. Sets the key kind.",
)
@click.option(
    "--stack",
    type=click.IntRange(min=1),
    help="Number of hypotheses kept per stack; sets the key stack_size.",
)
@click.option(
    "--cube-pruning-pop-limit",
    type=click.IntRange(min=1),
    help="Number of hypotheses made per stack; sets the key pop_limit.",
)
@click.option(
    "--weights",
    type=FILE_OR_STDIN,
    help='Weights to use instead of those in the ini: JSON, {"LM0": [0.5], ...}, or a weights.json of tuning.',
)
@click.option(
    "--neural-lm",
    "neural_lms",
    multiple=True,
    help='NAME=COMMAND, a neural model to use in the built-in search: "CSLM0=rescorer serve cslm"; may be '
    "given several times. Sets the key neural_lm.",
)
@click.option(
    "--constrain",
    type=FILE_OR_STDIN,
    help="Translations to force, one line per sentence. The output line is empty where that is impossible.",
)
@config_options(_decoder_settings)
@JOBS
def decode(
    ini: Path,
    source: Path,
    out: Path,
    nbest: Path | None,
    nbest_size: int,
    decoder: str | None,
    stack: int | None,
    cube_pruning_pop_limit: int | None,
    weights: Path | None,
    neural_lms: tuple[str, ...],
    constrain: Path | None,
    config: Path | None,
    jobs: int,
) -> None:
    """Translate a text by Moses or the built-in decoder.

    Moses is used if it is installed.

    \b
    Example:
      moses-bridge decode --ini filtered/moses.ini --source corpus/test.en --out test.out \\
          --nbest test.nbest.gz --nbest-size 100
    """
    from moses_bridge.decoding.decoder import open_decoder, refuse_model_files
    from moses_bridge.formats.moses_ini import read_ini
    from moses_bridge.formats.weights import weights_over_ini

    options = _decoder_settings(config, decoder, stack, cube_pruning_pop_limit, neural_lms)
    overwrite = weights_over_ini(weights, ini) if weights else None
    if constrain is not None:
        from moses_bridge.decoding.given_translations import force_translations

        report = force_translations(ini, options, jobs, source, constrain, out, overwrite, nbest)
        click.echo(f"{report.n_missed} of {report.n_lines} translations cannot be made", err=True)
        return
    refuse_model_files(read_ini(ini), source, (out, nbest))
    with open_decoder(ini, options, jobs) as search:
        search.decode(source, out, overwrite, nbest, nbest_size)


@command
@click.argument("nbest", type=FILE_OR_STDIN)
@click.option(
    "--ini", type=FILE_OR_STDIN, required=True, help="moses.ini that names the tables and weights."
)
@click.option(
    "--source",
    type=FILE_OR_STDIN,
    required=True,
    help="Tokenised source text of the n-best list.",
)
@click.option("--out", type=FILE_OR_STDOUT, required=True, help="N-best list to write.")
@click.option(
    "--weights",
    type=FILE_OR_STDIN,
    help="Weights to use instead of those in the ini; see `moses-bridge decode --help`.",
)
def score_nbest(nbest: Path, ini: Path, source: Path, out: Path, weights: Path | None) -> None:
    """Recompute the features of an n-best list.

    They are those of another model for the same segmentation, which the list must have.

    \b
    Example:
      moses-bridge score-nbest test.nbest.gz --ini new/moses.ini --source test.en --out new.nbest.gz
    """
    from moses_bridge.decoding.given_translations import score_entries
    from moses_bridge.formats.weights import weights_over_ini

    score_entries(ini, source, nbest, out, weights_over_ini(weights, ini) if weights else None)


COMMANDS = (
    decode,
    score_nbest,
)
