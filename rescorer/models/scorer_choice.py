"""The scorers chosen for a command, negative controls among them.

Each kind of scorer is imported when chosen: a control, a program or a function needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Control, Mean
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.models.pretrained.settings import KINDS, PretrainedSettings, parse_name

# A uniform number from here to 0 has a standard deviation of 4.3, about that of a phrase's log p.
LOWEST_RANDOM_LOG_PROB = -15.0


def scorer_of_control(control: Control, seed: int) -> NamedScorer:
    """The scorer of a control; the seed selects the noise."""
    match control:
        case "random":
            name = f"control: random, seed {seed}"
            return NamedScorer(name, RandomScorer(seed), name)
        case "length":
            return NamedScorer("control: length", LengthScorer(), "length")


class RandomScorer:
    """Log-uniform noise: log p uniform in (-15, 0), s.d. 4.3, about that of a phrase's log p.

    A pair has the same value wherever it occurs, as a model's score would.
    """

    shortlist = None
    needs_links = False

    def __init__(self, seed: int) -> None:
        self.key = seed.to_bytes(8, "little", signed=True)

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Noise of each pair, *Shape:* (n_pairs,)."""
        digests = b"".join(
            blake2b(source + b"\n" + target, digest_size=8, key=self.key).digest()
            for source, target in zip(batch.sources, batch.targets, strict=True)
        )
        return LOWEST_RANDOM_LOG_PROB * (np.frombuffer(digests, "<u8") / 2.0**64)


class LengthScorer:
    """Minus the number of target words: what a preference for short phrases alone gains."""

    shortlist = None
    needs_links = False

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """-1 for each target word, *Shape:* (n_pairs,)."""
        return np.array([-len(split_words(target)) for target in batch.targets], np.float64)


def scorer_of(
    model: Path,
    compute: Compute,
    trust_code: bool = False,
    settings: PretrainedSettings | None = None,
) -> NamedScorer:
    """The scorer of a model directory, or of a name of `rescorer.models.pretrained.settings`.

    Raises:
        InputError: the directory is not a whole model.
        ConfigError: settings do not fit the model or this machine.
    """
    name = parse_name(model)
    if name is None:
        from rescorer.models.model_directory import scorer_of_model

        return scorer_of_model(model, compute, trust_code)
    from rescorer.models.pretrained.choice import scorer_of_pretrained

    given = settings or PretrainedSettings()
    named = scorer_of_pretrained(name, given, compute)
    if given.reading == "as-is":
        return named
    if not KINDS[name.kind].has_source:
        raise ConfigError(f"{name} reads no source: leave --reading {given.reading} out")
    from rescorer.models.reading import REVERSED_NOTE, ReversedSides

    reads = f"{REVERSED_NOTE}, the model's source being the target: {named.name}"
    return replace(named, name=reads, scorer=ReversedSides(named.scorer, None))


def refuse_settings(models: Sequence[Path], settings: PretrainedSettings) -> None:
    """Refuse (ConfigError) settings of pretrained models if there is no such model."""
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
    """The scorers of a command, in the order of the columns; or a control alone.

    Attributes:
        models: their directories, or names of pretrained models.
        mean: the mean combining all scorers into one; None for a scorer each.
        control: instead of all others.
        seed: of a random control.
        compute: device and precision of the models.
        commands: programs printing values; see `rescorer.models.external_values`.
        with_links: whether they are given word links.
        factories: Python functions making scorers, `package.module:FACTORY`.
        trust_code: see `rescorer.models.model_directory.load_model`; factories named here are
            trusted.
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
        """Load the scorers.

        Raises:
            InputError: a directory is not a whole model, or its code is not trusted or cannot be
                imported.
            ConfigError: nothing is named, or things that do not fit together.
            ToolError: there is no program of a command.
        """
        self._check()
        scorers = []
        if self.control is not None:
            scorers.append(scorer_of_control(self.control, self.seed))
        for model in self.models:
            scorers.append(scorer_of(model, self.compute, self.trust_code, self.pretrained))
        if self.commands or self.factories:
            from rescorer.models.external_values import scorer_of_command, scorer_of_factory

            scorers += [scorer_of_command(command, self.with_links) for command in self.commands]
            scorers += map(scorer_of_factory, self.factories)
        if self.mean is None:
            return scorers
        from rescorer.models.ensemble import named_ensemble

        return [named_ensemble(scorers, self.mean)]

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
