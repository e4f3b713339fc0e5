"""The scorers that a command asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.models.controls import Control
from rescorer.models.ensemble import Mean, named_ensemble
from rescorer.models.model_directory import scorers_of


@dataclass(frozen=True)
class AskedScorers:
    """Models or a control, and how they compute.

    Attributes:
        models: their directories.
        mean: which mean of several models is one scorer; None for a scorer each.
        control: instead of models.
        seed: of a random control.
        compute: on what and how precisely.
    """

    models: tuple[Path, ...]
    mean: Mean | None
    control: Control | None
    seed: int
    compute: Compute

    def named(self) -> list[NamedScorer]:
        """The scorers, loaded.

        Raises:
            InputError: a directory is not a whole model.
            ConfigError: neither or both of models and control are given, or they do not fit together.
        """
        scorers = scorers_of(self.models, self.control, self.seed, self.compute)
        return scorers if self.mean is None else [named_ensemble(scorers, self.mean)]
