"""The command that runs an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moses_bridge.base.command import command
from moses_bridge.base.options import (
    ARGUMENT,
    Directory,
    InputFile,
    OutputDirectory,
    Prefix,
    option,
)
from tuning.experiments.settings import ImproveSettings, RunSettings


@dataclass(frozen=True, kw_only=True)
class RunOptions(RunSettings):
    """Options of `tuning run`.

    Attributes:
        experiment: Names of experiments of the package, and files of TOML.
    """

    experiment: Annotated[tuple[str, ...], ARGUMENT]
    out: OutputDirectory
    corpus: Directory | None = None
    model: Directory | None = None
    links: InputFile | None = None
    lists: InputFile | None = None
    networks: Directory | None = None
    inputs: Annotated[tuple[InputFile, ...], option("--input")] = ()
    trained: tuple[InputFile, ...] = ()
    changes: Annotated[tuple[str, ...], option("--set")] = ()
    goals: Annotated[tuple[str, ...], option("--goal")] = ()


@command
def run(options: RunOptions) -> None:
    """Run an experiment: from a corpus to its tables.

    EXPERIMENT is one of the package, or several: table1, the default table; controls; home, with columns
    trained on n-best lists; networks, a network for each tuning; best, all that gains; optimizers. Files of
    TOML change it, or are the whole experiment if no such name is given. What is finished is not made again.

    \b
    Example:
      tuning run table1 --out build/table1
      tuning run best --corpus corpus --model model --languages en de --out best --dry-run
    """
    from tuning.experiments.run import run_experiment

    run_experiment(options.experiment, options)


@dataclass(frozen=True, kw_only=True)
class ImproveOptions(ImproveSettings):
    """Options of `tuning run improve`."""

    ini: InputFile
    train: Prefix | None = None
    links: InputFile | None = None
    dev: Prefix
    test: Prefix
    out: OutputDirectory
    experiments: Annotated[tuple[InputFile, ...], option("--config")] = ()


@command
def improve(options: ImproveOptions) -> None:
    """Make a better system of a Moses system.

    It checks everything, says what it will try and how long that takes, tunes the system and candidates on the
    dev text three times each, chooses by dev BLEU, and compares the choice with the system and with columns of
    noise on the test text. OUT has the better system for `tuning decode`, a page, and README.txt. What is
    finished is not made again.

    \b
    Example:
      tuning run improve --ini model/moses.ini --train corpus/train --dev dev --test test \\
          --languages en fr --out better
    """
    from tuning.experiments.improve import improve as improve_system

    improve_system(options)


improve.name = "run improve"
