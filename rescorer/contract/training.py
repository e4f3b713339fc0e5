"""What the training loop needs to know of a network: its settings and its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rescorer.contract.scorer import LogZ
from rescorer.contract.vocabulary import Shortlists

if TYPE_CHECKING:
    from torch import Tensor, nn


class TrainingSettings(Protocol):
    """What the settings of each architecture have; a frozen dataclass."""

    @property
    def loop(self) -> Any:
        """Recipe and limits, a `training.loop_config.LoopConfig`."""

    @property
    def model(self) -> Any:
        """The sizes of the network, a frozen dataclass."""


TaskBatch = TypeVar("TaskBatch")

AnyBatch = TypeVar("AnyBatch", covariant=True)


class Batches(Protocol[AnyBatch]):
    """The batches of an epoch by number, a list say."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> AnyBatch: ...


class Task(Protocol, Generic[TaskBatch]):
    """What is learned: the batches of an epoch and their loss."""

    def batches(self, epoch: int) -> Batches[TaskBatch]:
        """The batches of an epoch, in their order; the same ones for the same number."""

    @property
    def batch_size(self) -> int:
        """Items of an update, whatever it counts."""

    def parts(self, batch: TaskBatch, n_parts: int) -> list[TaskBatch]:
        """A batch in at most n_parts parts, none empty: their losses sum up to that of the batch."""

    def n_words(self, batch: TaskBatch) -> float:
        """The weight of the words of a batch."""

    def loss(self, batch: TaskBatch) -> tuple[Tensor, float]:
        """Summed loss (natural log) of a batch or a part, and the weight of the words in it."""

    @property
    def n_held_out(self) -> int:
        """Held-out items of the data."""

    def held_out_loss(self) -> float | None:
        """Loss on held-out data in nats per word, </s> included; None if there are no such data."""


@dataclass(frozen=True)
class Prepared:
    """A training before its first update.

    Attributes:
        network: with its initial weights.
        task: batches and losses.
        shortlists: the network's.
        digest: of all data learned from; guards `resume`.
        record: what else is to be kept with the model.
        finish: makes ready for scores without the denominator Z what has been trained for that, and
            measures log Z on held-out text, None without such text; it changes no probability.
    """

    network: nn.Module
    task: Task[Any]
    shortlists: Shortlists
    digest: str
    record: Mapping[str, Any] = field(default_factory=dict)
    finish: Callable[[], LogZ | None] | None = None
