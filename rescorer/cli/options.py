"""Options shared by commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from moses_bridge.base.config import choices
from moses_bridge.base.options import option
from rescorer.contract.choices import (
    Device,
    OutputFormat,
    PrecisionOrFastest,
    PretrainedKind,
)

if TYPE_CHECKING:
    from rescorer.contract.compute import Compute


class ModelPath(click.Path):
    """A model: an existing path, or the name of a pretrained model, such as hf:DIRECTORY."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a missing pretrained model is noticed when loading it."""
        kind, _, place = str(value).partition(":")
        if place and kind in choices(PretrainedKind):
            return Path(value)
        return super().convert(value, param, ctx)


ModelDirectory = Annotated[Path, ModelPath(exists=True, file_okay=False, path_type=Path)]
ModelFileOrDirectory = Annotated[Path, ModelPath(exists=True, path_type=Path)]
Format = Annotated[OutputFormat, option("--format"), "Output format."]


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Where a network is computed, and whose code may run.

    Attributes:
        trust_code: Allow code from outside rescorer to run, if it is the architecture of a model.
        device: Where the network is computed; auto is a GPU if there is one.
    """

    trust_code: bool = False
    device: Device = "auto"

    @property
    def compute(self) -> Compute:
        """The settings of a scorer's computations."""
        from rescorer.contract.compute import Compute, known_precision

        precision = known_precision(getattr(self, "precision", "float32"))
        return Compute(precision, self.device, getattr(self, "unnormalized", False))


@dataclass(frozen=True, kw_only=True)
class ComputeOptions(DeviceOptions):
    """Where and how precisely a network is computed.

    Attributes:
        precision: Number format of matrix products; sums and the softmax are always float32. bfloat16 is
            faster where the processor has instructions for it, and slower elsewhere; fastest takes it there.
    """

    precision: PrecisionOrFastest = "float32"


@dataclass(frozen=True, kw_only=True)
class RawComputeOptions(ComputeOptions):
    """Where and how precisely a network is computed, with or without the denominator of its softmax.

    Attributes:
        unnormalized: Leave out the denominator of the softmax. For models trained with self_normalisation.
    """

    unnormalized: bool = False
