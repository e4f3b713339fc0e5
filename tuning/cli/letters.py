"""Commands of systems whose words are letters: letters train, predict, evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click

from moses_bridge.base.command import command
from moses_bridge.base.options import (
    ARGUMENT,
    N_JOBS,
    STANDARD_STREAM,
    Directory,
    FileOrStdin,
    InputFile,
    Jobs,
    OutputDirectory,
    Positive,
    option,
)
from tuning.experiments.letters_settings import LettersSettings
from tuning.experiments.letters_text import Unit

UNITS = "[letters|symbols] [letters|symbols]"
LOOKUP_HELP = "Whether sources in the training pairs have their targets there."


@dataclass(frozen=True, kw_only=True)
class LettersOptions(LettersSettings):
    """Options of `tuning letters train`."""

    pairs: Annotated[InputFile, ARGUMENT]
    out: OutputDirectory
    units: Annotated[tuple[Unit, Unit], option(metavar=UNITS)] = LettersSettings.units
    dev: InputFile | None = None
    config: InputFile | None = None


@command
def train(options: LettersOptions) -> None:
    """Learn spellings, pronunciations or the like from pairs.

    PAIRS has lines `source <tab> target`: words or longer texts, which may be of one language. A system is
    built whose words are letters, a part of the sources is held out, and weights are tuned on it.

    \b
    Example:
      tuning letters train spellings.tsv --out modern
      tuning letters train lexicon.tsv --units letters symbols --nnjm --out spoken
    """
    from tuning.experiments.letters import train as train_system

    click.echo(train_system(options))


@command
def predict(
    system: Annotated[Directory, ARGUMENT],
    source: Annotated[FileOrStdin, "Sources, one per line."] = STANDARD_STREAM,
    nbest: Annotated[Positive, "Largest number of targets per source."] = 1,
    lookup: Annotated[bool, LOOKUP_HELP] = True,
    jobs: Jobs = N_JOBS,
) -> None:
    """Predict targets with their probabilities.

    Prints lines `source <tab> target <tab> probability`. For a source in the training pairs that is the share
    of the target there. For another source it is a share among 100 hypotheses, scaled such that on held-out
    sources the first targets are right as often as their probabilities say.

    \b
    Example:
      tuning letters predict modern < words.txt
      tuning letters predict spoken --source words.txt --nbest 3
    """
    from moses_bridge.base.text_lines import read_text_lines
    from moses_bridge.formats.words import as_text
    from tuning.experiments.letters_system import predict as predictions

    sources = [as_text(line).strip() for line in read_text_lines(source)]
    found = predictions(system, sources, jobs, lookup)
    for each in sources:
        for target, prob in found[each][:nbest]:
            click.echo(f"{each}\t{target}\t{prob:.4f}")


@command
def evaluate(
    system: Annotated[Directory, ARGUMENT],
    test: Annotated[InputFile, ARGUMENT],
    dictionary: Annotated[
        bool, "Count a source once, and any of its targets as right, instead of each line."
    ] = False,
    lookup: Annotated[bool, LOOKUP_HELP] = True,
    jobs: Jobs = N_JOBS,
) -> None:
    """Print how often targets are right.

    TEST has lines `source <tab> target`. Printed are the percentage of lines that are right, and the edits for
    100 letters or symbols: of all lines, of those with sources in the training pairs, and of others. The
    look-up has the most frequent targets in the training pairs, and copies other sources.

    Example: tuning letters evaluate modern test.tsv
    """
    from tuning.experiments.letters_system import evaluate as scores_of
    from tuning.experiments.letters_system import score_lines

    for line in score_lines(scores_of(system, test, jobs, lookup, dictionary)):
        click.echo(line)


COMMANDS = (train, predict, evaluate)
for each in COMMANDS:
    each.name = f"letters {each.name}"
