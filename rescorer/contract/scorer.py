"""What a scorer is, and what an architecture brings along so that everything else is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import UserError, shown
from moses_bridge.base.textio import StrPath
from rescorer.contract.vocabulary import Shortlists as Shortlists
from rescorer.contract.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor, nn

    from moses_bridge.formats.ngram_scorer import NgramScorer
    from rescorer.contract.compute import Compute
    from rescorer.contract.target_generation import TargetGenerator

Side = Literal["source", "target"]
# From numbers of some phrase pairs, *Shape:* (n,), to their values, *Shape:* (n,), with gradients.
PhraseValues = Callable[[NDArray[np.int64]], "Tensor"]
# From phrases to what the network makes of each, *Shape:* (n, d), float32.
Summaries = Callable[[Sequence[bytes]], NDArray[np.float32]]
DataKind = Literal["phrase pairs", "text", "parallel text", "linked text"]
# How a network reads its data: with reversed sides it knows p(source | target), from right to left it
# predicts the last word of a sentence first.
Reading = Literal["as-is", "reversed-sides", "right-to-left", "reversed-sides-right-to-left"]
PairReading = Literal["as-is", "reversed-sides"]
TextReading = Literal["as-is", "right-to-left"]
# Keys of settings in earlier versions, and what is written now.
FORMER_READING_KEYS = {
    "reverse_sides": 'reading = "reversed-sides"',
    "right_to_left": 'reading = "right-to-left"',
}
# The column_note of language models: in a translation a phrase stands between others.
AS_A_SENTENCE = "an approximation: each target phrase as a sentence of its own"


@dataclass(frozen=True)
class Batch:
    """Pairs to be scored.

    Attributes:
        sources: words separated by blanks.
        targets: as many.
        links: word links of each pair in Pharaoh format, for scorers that need them.
    """

    sources: Sequence[bytes]
    targets: Sequence[bytes]
    links: Sequence[bytes] | None = None

    def __post_init__(self) -> None:
        sizes = {len(column) for column in (self.sources, self.targets, self.links or self.targets)}
        if len(sizes) > 1:
            raise ValueError(f"{len(self.sources)} sources, {len(self.targets)} targets")

    def __len__(self) -> int:
        return len(self.targets)

    def part(self, rows: NDArray[np.int64]) -> Batch:
        """Some of the pairs by their numbers."""
        sources, targets = ([side[row] for row in rows] for side in (self.sources, self.targets))
        return Batch(sources, targets, self.links and [self.links[row] for row in rows])

    def sides_swapped(self) -> Batch:
        """The same pairs with targets as sources and sources as targets."""
        links = None if self.links is None else [_turned(links) for links in self.links]
        return Batch(self.targets, self.sources, links)


def _turned(links: bytes) -> bytes:
    """Word links target-source."""
    return b" ".join(b"-".join(link.split(b"-")[::-1]) for link in links.split())


class UnfitPair(UserError):
    """A pair that a scorer has no value for; who knows where it comes from tells the place.

    Args:
        row: of the batch.
        asked: the batch.
        side: the phrase that is at fault.
        fault: what is wrong with it.
        expected: what it should be.
        hint: what to do about it.
    """

    def __init__(
        self, row: int, asked: Batch, side: Side, fault: str, expected: str, hint: str
    ) -> None:
        self.row, self.side, self.fault = row, side, fault
        self.expected, self.hint = expected, hint
        pair = shown(b" ||| ".join([asked.sources[row], asked.targets[row]]))
        super().__init__(f"{pair}: found {self.found}, expected {expected}. {hint}")

    @property
    def found(self) -> str:
        """The fault and its side."""
        return f"{self.fault} on the {self.side} side"


def reverses_sides(reading: Reading) -> bool:
    """Whether targets are read as sources, and sources as targets."""
    return reading in ("reversed-sides", "reversed-sides-right-to-left")


def goes_right_to_left(reading: Reading) -> bool:
    """Whether the last word of a sentence is predicted first."""
    return reading in ("right-to-left", "reversed-sides-right-to-left")


class LogZ(NamedTuple):
    """Natural log of the softmax's denominator over held-out text.

    Attributes:
        mean: over all predicted words.
        sd: its standard deviation.
    """

    mean: float
    sd: float

    def __str__(self) -> str:
        return f"log Z held out: mean {self.mean:.4f}, s.d. {self.sd:.4f}"


class Scorer(Protocol):
    """A model of target text given source text."""

    @property
    def shortlist(self) -> Vocabulary | None:
        """The target words that it knows; None where unknown words cannot be counted."""

    @property
    def needs_links(self) -> bool:
        """Whether a batch must have word links."""

    def values(self, asked: Batch) -> NDArray[np.float64]:
        """What enters the log-linear model: natural log of p(target | source), </s> included.

        Words outside a shortlist are <unk>. A scorer that knows no probability gives its own value.
        A pair's value does not depend on which other pairs are asked for with it (to 1e-5).

        Args:
            asked: the pairs; neighbours that are alike are computed once.

        Returns:
            *Shape:* (n_pairs,).

        Raises:
            UnfitPair: the scorer has no value for a pair.
        """


class WordLogProbs(NamedTuple):
    """What single words have, pair by pair, </s> behind the words of each.

    Attributes:
        log_probs: natural log p(word | what stands before it, and the source), *Shape:* (n_words,).
        pairs: the pair of each word, rising, *Shape:* (n_words,).
    """

    log_probs: NDArray[np.float64]
    pairs: NDArray[np.int64]


@runtime_checkable
class WordScorer(Protocol):
    """A model that predicts target text word by word."""

    def word_log_probs(self, asked: Batch) -> WordLogProbs:
        """Natural log-probabilities of all words; those of a pair add up to its value.

        Words outside a shortlist are <unk>.

        Args:
            asked: the pairs.
        """


@dataclass(frozen=True)
class NamedScorer:
    """A scorer and what it is.

    Attributes:
        name: for reports: the model's directory, or the control.
        scorer: gives the values.
        fingerprint: changes whenever the values may change; guards `resume`.
    """

    name: str
    scorer: Scorer
    fingerprint: str


@dataclass(frozen=True)
class Data:
    """Where the text of a training stands.

    Attributes:
        path: a phrase table, or target text, one sentence a line.
        source: the source text of parallel text, line by line.
        links: its word links in Pharaoh format, line by line.
        texts: source and target text whose words are counted for the shortlists of a model of phrase
            pairs; None counts those of the pairs.
        cache: a directory in which the pairs of a phrase table are kept for later trainings.
    """

    path: StrPath
    source: StrPath | None = None
    links: StrPath | None = None
    texts: tuple[StrPath, StrPath] | None = None
    cache: StrPath | None = None


class TrainingSettings(Protocol):
    """What the settings of each architecture have; a frozen dataclass."""

    @property
    def loop(self) -> Any:
        """Recipe and limits, a `training.loop.LoopConfig`."""

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
        """A batch in at most so many parts, none empty: their losses sum up to that of the batch."""

    def n_words(self, batch: TaskBatch) -> float:
        """The weight of the words of a batch."""

    def loss(self, batch: TaskBatch) -> tuple[Tensor, float]:
        """Summed loss (natural log) of a batch or a part, and the weight of the words in it."""

    @property
    def n_held_out(self) -> int:
        """Items of the data that are held out."""

    def held_out_loss(self) -> float | None:
        """Loss on held-out data in nats per word, </s> included; None if there are no such data."""


Settings = TypeVar("Settings", bound=TrainingSettings)
Network = TypeVar("Network", bound="nn.Module")


@dataclass(frozen=True)
class Prepared:
    """A training before its first update.

    Attributes:
        network: with its initial weights.
        task: batches and losses.
        shortlists: the network's.
        digest: of all data that are learned from; guards `resume`.
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


@dataclass(frozen=True)
class TrainingRecord:
    """What a config.json says of a training, as far as scores depend on it.

    Attributes:
        reading: how the data were read.
        is_self_normalised: whether the network was trained to have a softmax denominator of 1.
        log_z: that of held-out text; None where it was not measured.
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
    """A model directory in memory.

    Attributes:
        architecture: its name.
        network: in evaluation mode, on the CPU.
        shortlists: the network's.
        description: all of config.json.
    """

    architecture: str
    network: Network
    shortlists: Shortlists
    description: Mapping[str, Any]

    @property
    def training(self) -> TrainingRecord:
        """What its training says of it."""
        return TrainingRecord.of(self.description)

    @property
    def reverses_sides(self) -> bool:
        """Whether the network was trained on swapped sides: it knows p(source | target)."""
        return reverses_sides(self.training.reading)

    def as_read(self, pairs: Batch) -> Batch:
        """The pairs with the side first that the network reads."""
        return pairs.sides_swapped() if self.reverses_sides else pairs

    @property
    def goes_right_to_left(self) -> bool:
        """Whether the network was trained on turned sentences: it predicts the last word first."""
        return goes_right_to_left(self.training.reading)


@dataclass(frozen=True, kw_only=True)
class Architecture(Generic[Settings, Network]):
    """What the file or folder of a scorer ends with.

    Attributes:
        data: what it is trained on.
        settings: the dataclass that `rescorer train --config` reads.
        prepare: reads the data and makes the network, from data, settings and seed.
        network: the network with weights that are still to be loaded.
        scorer: of phrase pairs and sentence pairs.
        ngrams: of n-grams, where the search may ask the model.
        generator: of targets of what the network reads, where it goes word by word.
        column_note: what a column of its values must be called besides, where it is an approximation.
        embeddings: the vectors of the words of each side that the network reads, row by id in the shortlist,
            *Shape:* (n_words, r); where words have vectors.
        summaries: of phrases of the language that the network reads, where it makes one vector of a phrase.
        phrase_values: of given phrase pairs by their numbers, through which gradients flow into the network,
            where it can be trained on whole translations.
    """

    data: DataKind
    settings: type[Settings]
    prepare: Callable[[Data, Settings, int], Prepared]
    network: Callable[[Settings, Shortlists], Network]
    scorer: Callable[[TrainedModel[Network], Compute], Scorer]
    ngrams: Callable[[TrainedModel[Network], Compute], NgramScorer] | None = None
    generator: Callable[[TrainedModel[Network], Compute], TargetGenerator] | None = None
    column_note: str = ""
    embeddings: Callable[[TrainedModel[Network]], Mapping[Side, NDArray[np.float32]]] | None = None
    summaries: Callable[[TrainedModel[Network], Compute], Summaries] | None = None
    phrase_values: Callable[[TrainedModel[Network], Batch], PhraseValues] | None = None
