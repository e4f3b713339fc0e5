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
from tuning.experiments.settings import LettersSettings, Unit
from tuning.metrics.by_name import MetricName

Units = Annotated[tuple[Unit, Unit], option(metavar="[letters|symbols] [letters|symbols]")]


@dataclass(frozen=True, kw_only=True)
class LettersOptions(LettersSettings):
    """Options of `tuning letters train`."""

    pairs: Annotated[InputFile, ARGUMENT]
    out: OutputDirectory
    units: Units = LettersSettings.units
    metric: MetricName = "cer"
    config: InputFile | None = None


@command
def train(options: LettersOptions) -> None:
    """Learn spellings, pronunciations or the like from pairs.

    PAIRS has lines `source <tab> target`: words or longer texts, which may be of one language. Weights are
    tuned on a tenth of the sources, at most 1,000; then the model is made of all pairs.

    Example: tuning letters train spellings.tsv --out modern
    """
    from tuning.experiments.letters import train as train_system

    click.echo(train_system(options))


@command
def predict(
    system: Annotated[Directory, ARGUMENT],
    source: Annotated[FileOrStdin, "Sources, one per line."] = STANDARD_STREAM,
    number: Annotated[
        Positive, option("-n", "--number"), "Largest number of targets per source."
    ] = 1,
    jobs: Jobs = N_JOBS,
) -> None:
    """Predict targets with their probabilities.

    Prints lines `source <tab> target <tab> probability`. For a source in the training pairs that is the share
    of the target there. For another source it is a share among 100 hypotheses, scaled such that on held-out
    sources the first targets are right as often as their probabilities say; nan if there is one hypothesis
    alone.

    Example: tuning letters predict modern -n 3 < words.txt
    """
    from tuning.experiments.letters import predict as predictions
    from tuning.experiments.letters import read_sources

    sources = read_sources(source)
    found = predictions(system, sources, jobs)
    for each in sources:
        for target, prob in found[each][:number]:
            click.echo(f"{each}\t{target}\t{prob:.4f}")


@command
def evaluate(
    system: Annotated[Directory, ARGUMENT],
    test: Annotated[InputFile, ARGUMENT],
    dictionary: Annotated[bool, "Count a source once, and any of its targets as right."] = False,
    jobs: Jobs = N_JOBS,
) -> None:
    """Print how often targets are right.

    TEST has lines `source <tab> target`. Edits are those for 100 letters or symbols; seen are sources in the
    training pairs. The look-up has their most frequent targets, and copies other sources.

    Example: tuning letters evaluate modern test.tsv
    """
    from tuning.experiments.letters import evaluate as table_of

    click.echo(table_of(system, test, jobs, dictionary))


for each in (train, predict, evaluate):
    each.name = f"letters {each.name}"
