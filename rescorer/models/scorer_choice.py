"""The scorers chosen for a command: everything that can give a column, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from moses_bridge.base.errors import ConfigError
from rescorer.contract.choices import Control, Mean
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.models.controls import scorer_of_control
from rescorer.models.ensemble import named_ensemble
from rescorer.models.external_values import scorer_of_command, scorer_of_factory
from rescorer.models.model_directory import scorer_of_model


@dataclass(frozen=True)
class ScorerChoice:
    """What gives columns, in the order of the columns; or a control alone.

    Attributes:
        models: their directories.
        mean: which mean of several scorers is one scorer; None for a scorer each.
        control: instead of all others.
        seed: of a random control.
        compute: on what and how precisely models do.
        commands: programs that give values; see `rescorer.models.external_values`.
        with_links: whether they are given word links.
        factories: Python functions that make scorers, `package.module:FACTORY`.
        trust_code: see `rescorer.models.model_directory.load_model`; factories named here are trusted.
    """

    models: tuple[Path, ...]
    mean: Mean | None
    control: Control | None
    seed: int
    compute: Compute
    commands: tuple[str, ...] = ()
    with_links: bool = False
    factories: tuple[str, ...] = ()
    trust_code: bool = False

    def named(self) -> list[NamedScorer]:
        """The scorers, loaded.

        Raises:
            InputError: a directory is not a whole model, or its code is not trusted or cannot be imported.
            ConfigError: nothing is named, or things that do not fit together.
            ToolError: there is no program of a command.
        """
        self._check()
        scorers = [
            *(scorer_of_model(model, self.compute, self.trust_code) for model in self.models),
            *(scorer_of_command(command, self.with_links) for command in self.commands),
            *map(scorer_of_factory, self.factories),
            *([scorer_of_control(self.control, self.seed)] if self.control else []),
        ]
        return scorers if self.mean is None else [named_ensemble(scorers, self.mean)]

    def _check(self) -> None:
        others = (*self.models, *self.commands, *self.factories)
        if bool(others) == (self.control is not None):
            raise ConfigError(
                "name either a model (one or more), a command or a function, or a control"
            )
        if self.with_links and not self.commands:
            raise ConfigError("--with-links is for --values: leave it out")
        if self.compute.unnormalized and not self.models:
            raise ConfigError(
                "a control has no denominator: leave --unnormalized out"
                if self.control
                else "only a model has a denominator: leave --unnormalized out"
            )
