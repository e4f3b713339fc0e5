"""A model directory in memory, and its training record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rescorer.contract.batch import Batch
from rescorer.contract.choices import Reading, goes_right_to_left, reverses_sides
from rescorer.contract.scorer import LogZ
from rescorer.contract.vocabulary import Shortlists

if TYPE_CHECKING:
    from torch import nn

Network = TypeVar("Network", bound="nn.Module")

# What a training writes into the directory besides the model.
TRAINING_STATE = "training.safetensors"
LOG_NAME = "training.jsonl"


@dataclass(frozen=True)
class TrainingRecord:
    """The part of a training's record in config.json on which scores depend.

    is_self_normalised says whether it gave the network a softmax denominator of 1; log_z is that of held-out
    text, None if not measured.
    """

    reading: Reading = "as-is"
    is_self_normalised: bool = False
    log_z: LogZ | None = None

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> TrainingRecord:
        """The record of a config.json."""
        training = description.get("training", {})
        settings, report = training.get("config", {}), training.get("report", {})
        mean, sd = report.get("log_z_mean"), report.get("log_z_sd")
        return cls(
            settings.get("reading", "as-is"),
            bool(settings.get("self_normalisation")),
            None if mean is None or sd is None else LogZ(mean, sd),
        )


@dataclass(frozen=True)
class TrainedModel(Generic[Network]):
    """A model directory in memory; the network is in evaluation mode, on the CPU.

    `description` is all of config.json.
    """

    architecture: str
    network: Network
    shortlists: Shortlists
    description: Mapping[str, Any]

    @property
    def training(self) -> TrainingRecord:
        """The record of its training."""
        return TrainingRecord.of(self.description)

    @property
    def reverses_sides(self) -> bool:
        """Whether the network was trained on swapped sides: it models p(source | target)."""
        return reverses_sides(self.training.reading)

    def as_read(self, pairs: Batch) -> Batch:
        """The pairs with the side read by the network first."""
        return pairs.sides_swapped() if self.reverses_sides else pairs

    @property
    def goes_right_to_left(self) -> bool:
        """Whether the network predicts the last word first."""
        return goes_right_to_left(self.training.reading)
