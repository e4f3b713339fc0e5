"""The scorers chosen for a command: everything that can give a column, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from moses_bridge.base.errors import ConfigError
from rescorer.contract.choices import Control, Mean
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.models.controls import scorer_of_control
from rescorer.models.ensemble import named_ensemble
from rescorer.models.external_values import scorer_of_command, scorer_of_factory
from rescorer.models.pretrained.choice import parse_name, scorer_of_pretrained
from rescorer.models.pretrained.settings import PretrainedSettings


def scorer_of(
    model: Path,
    compute: Compute,
    trust_code: bool = False,
    settings: PretrainedSettings | None = None,
) -> NamedScorer:
    """The scorer of a model directory, or of a pretrained model.

    Args:
        model: what `rescorer train` wrote, or a name as of `rescorer.models.pretrained.choice`.
        compute: on what and how precisely.
        trust_code: see `rescorer.models.model_directory.load_model`.
        settings: of the text of pretrained models; None for those by default.

    Raises:
        InputError: the directory is not a whole model.
        ConfigError: settings do not fit the model or this machine.
    """
    name = parse_name(model)
    if name is None:
        # Here, since a control, a program or a function needs no PyTorch.
        from rescorer.models.model_directory import scorer_of_model

        return scorer_of_model(model, compute, trust_code)
    return scorer_of_pretrained(name, settings or PretrainedSettings(), compute)


def refuse_settings(models: Sequence[Path], settings: PretrainedSettings) -> None:
    """Refuse settings of pretrained models where there is none.

    Raises:
        ConfigError: there is none.
    """
    if settings != PretrainedSettings() and not any(map(parse_name, models)):
        changed = [
            f"--{one.name.replace('_', '-')}"
            for one in fields(settings)
            if getattr(settings, one.name) != one.default
        ]
        raise ConfigError(
            f"{changed[0]} is for pretrained models, such as hf:DIRECTORY: leave it out"
        )


@dataclass(frozen=True)
class ScorerChoice:
    """What gives columns, in the order of the columns; or a control alone.

    Attributes:
        models: their directories, or names of pretrained models.
        mean: which mean of several scorers is one scorer; None for a scorer each.
        control: instead of all others.
        seed: of a random control.
        compute: on what and how precisely models do.
        commands: programs that give values; see `rescorer.models.external_values`.
        with_links: whether they are given word links.
        factories: Python functions that make scorers, `package.module:FACTORY`.
        trust_code: see `rescorer.models.model_directory.load_model`; factories named here are trusted.
        pretrained: settings of pretrained models.
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
    pretrained: PretrainedSettings = field(default_factory=PretrainedSettings)

    def named(self) -> list[NamedScorer]:
        """The scorers, loaded.

        Raises:
            InputError: a directory is not a whole model, or its code is not trusted or cannot be imported.
            ConfigError: nothing is named, or things that do not fit together.
            ToolError: there is no program of a command.
        """
        self._check()
        scorers = [
            *(
                scorer_of(model, self.compute, self.trust_code, self.pretrained)
                for model in self.models
            ),
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
        refuse_settings(self.models, self.pretrained)
        if self.with_links and not self.commands:
            raise ConfigError("--with-links is for --values: leave it out")
        if self.compute.unnormalized and not self.models:
            raise ConfigError(
                "a control has no denominator: leave --unnormalized out"
                if self.control
                else "only a model has a denominator: leave --unnormalized out"
            )
