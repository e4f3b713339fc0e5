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
    option,
)
from tuning.experiments.run_settings import RunSettings


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


COMMANDS = (run,)
