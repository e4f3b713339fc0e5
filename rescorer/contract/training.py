"""The parts of a training: data, settings and task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from moses_bridge.base.textio import StrPath
from rescorer.contract.scorer import LogZ
from rescorer.contract.vocabulary import Shortlists

if TYPE_CHECKING:
    from torch import Tensor, nn


DataKind = Literal["phrase pairs", "text", "parallel text", "linked text"]


@dataclass(frozen=True)
class Data:
    """Files of training data.

    Attributes:
        path: a phrase table, or target text, one sentence a line.
        source: the source text of parallel text, line by line.
        links: its word links in Pharaoh format, line by line.
        texts: source and target text to count the words of a phrase model's shortlists in; None counts
            those of the pairs.
        cache: directory that keeps the pairs of a phrase table for later trainings.
        shortlists: those of the network trained further; None chooses them from the data.
    """

    path: StrPath
    source: StrPath | None = None
    links: StrPath | None = None
    texts: tuple[StrPath, StrPath] | None = None
    cache: StrPath | None = None
    shortlists: Shortlists | None = None


class TrainingSettings(Protocol):
    """Fields of every architecture's settings, a frozen dataclass."""

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
    """A training objective: batches of an epoch and their loss."""

    def batches(self, epoch: int) -> Batches[TaskBatch]:
        """The batches of an epoch in order; the same number gives the same batches."""

    @property
    def batch_size(self) -> int:
        """Items of an update, in the task's own unit."""

    def parts(self, batch: TaskBatch, n_parts: int) -> list[TaskBatch]:
        """A batch in at most n_parts non-empty parts, whose losses sum to that of the batch."""

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
        digest: of all training data; guards `resume`.
        record: further entries of the model's record.
        finish: prepares a self-normalised network for scores without the denominator Z, and measures
            log Z on held-out text, None without such text; it changes no probability.
    """

    network: nn.Module
    task: Task[Any]
    shortlists: Shortlists
    digest: str
    record: Mapping[str, Any] = field(default_factory=dict)
    finish: Callable[[], LogZ | None] | None = None
