"""Training of a recurrent network on phrase pairs: settings, batches and losses.

A batch holds sources with all or some of their targets, which share work, or pairs drawn at random (the
paper's way).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.config import AtLeast, AtMost, check_limits
from rescorer.contract.data import FORMER_READING_KEYS, PairReading, reverses_sides
from rescorer.training.held_out import held_out_mask
from rescorer.training.loop import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.pairs.phrase_pairs import PairChoice, Weighting
from rescorer.training.recipes import RecipeName
from rescorer.training.seeded_batch import SeededBatch, in_random_order

Batching = Literal["sources", "parts", "pairs"]
# Targets of a source that come into a batch together. 4 learned quickest of 1, 2, 3, 4, 8 and all
# (docs/journal/speed-training.md): more share more work, but make a batch less varied.
TARGETS_TOGETHER: dict[Batching, int | None] = {"sources": None, "parts": 4, "pairs": 1}
# Held-out pairs scored at a time, so that memory does not grow with their number.
HELD_OUT_BATCH_PAIRS = 4096


class PairRecipe(NamedTuple):
    """What a recipe means for phrase pairs.

    Attributes:
        batch_pairs: pairs of an update.
        batching: which pairs come into a batch together.
        samples: whether a softmax may be taken over a sample of the words.
    """

    batch_pairs: int
    batching: Batching
    samples: bool


# 64 pairs at random are those of Cho et al. (2014), section 4.1.
PAIR_RECIPES: dict[RecipeName, PairRecipe] = {
    "adam": PairRecipe(512, "parts", samples=True),
    "paper": PairRecipe(64, "pairs", samples=False),
}


@dataclass(frozen=True)
class PairTrainingConfig:
    """Settings of a training on phrase pairs.

    Attributes:
        max_phrase_words: pairs with a longer side are not learned from.
        weighting: how much a pair counts: "distinct" (the paper), "sqrt-count" or "count".
        min_prob: pairs with a lower p(target | source) in the table are not learned from, whichever side
            is predicted.
        max_pairs: maximum number of pairs, drawn at random; 0 for all.
        pool_pairs: pairs in memory at a time, some 150 bytes each. Of a larger table, batches are
            drawn from one pool after another, each a sample of the sources of the whole table.
        shortlist: words of each side, </s> and <unk> not counted.
        shortlist_coverage: instead of their number the share of the running words of each side they
            make up (Cho et al. 2014, section 4.1: 0.93), 0 for none. `--texts` names the text to
            count; without it these are the words of the phrase pairs.
        n_held_out: pairs not learned from.
        batch_pairs: pairs of an update; 0 takes 64 with the recipe "paper", 512 otherwise. A GPU learns 4,096
            six times as fast, for which a `learning_rate` of 4e-3 was good.
        batching: "sources" puts all targets of a source into one batch, so that they share work. "parts"
            puts four of them at a time, so that a batch is more varied. "pairs" draws pairs at random, as
            in the paper. "auto" takes "parts" with the recipe "adam", "pairs" with "paper".
        reading: "reversed-sides" learns p(source | target): the network reads the targets of the table and
            predicts its sources. The model's record says so, and its scores of a table are those then.
        loop: recipe and limits; the default learning rate is 6e-3.
    """

    max_phrase_words: Annotated[int, AtLeast(1)] = 7
    weighting: Weighting = "distinct"
    min_prob: Annotated[float, AtLeast(0)] = 0.0
    max_pairs: Annotated[int, AtLeast(0)] = 0
    pool_pairs: Annotated[int, AtLeast(1)] = 2**22
    shortlist: Annotated[int, AtLeast(1)] = 15_000
    shortlist_coverage: Annotated[float, AtLeast(0), AtMost(1)] = 0.0
    n_held_out: Annotated[int, AtLeast(0)] = 5_000
    batch_pairs: Annotated[int, AtLeast(0)] = 0
    batching: Batching | Literal["auto"] = "auto"
    reading: PairReading = "as-is"
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(learning_rate=6e-3))
    former_keys: ClassVar[Mapping[str, str]] = FORMER_READING_KEYS

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def choice(self) -> PairChoice:
        """Which rows of a table are learned from."""
        return PairChoice.of(
            self.max_phrase_words, self.weighting, self.min_prob, reverses_sides(self.reading)
        )

    @property
    def pairs_per_update(self) -> int:
        """Pairs of an update."""
        return self.batch_pairs or PAIR_RECIPES[self.loop.recipe].batch_pairs

    @property
    def targets_together(self) -> int | None:
        """How many targets of a source come into a batch together; None for all."""
        recipe = PAIR_RECIPES[self.loop.recipe]
        return TARGETS_TOGETHER[recipe.batching if self.batching == "auto" else self.batching]


class PairLosses(Protocol):
    """Weighted sums over phrase pairs, natural log, *Shape:* ()."""

    def of_update(self, data: EncodedPairs, batch: SeededBatch) -> Tensor:
        """What an update lowers; the sum over the parts of a batch is that of the batch."""

    def of_held_out(self, data: EncodedPairs, rows: NDArray[np.int64]) -> Tensor:
        """The measure of how good the network is, for the given rows, *Shape:* (n,)."""


class PairTask:
    """The batches and losses of phrase pairs in memory.

    Args:
        data: the pairs.
        config: settings.
        seed: of the held-out pairs, of the order and of what an update draws.
        losses: of some pairs.
    """

    def __init__(
        self, data: EncodedPairs, config: PairTrainingConfig, seed: int, losses: PairLosses
    ) -> None:
        self.losses = losses
        self.data = data
        self.config = config
        self.seed = seed
        held_out = held_out_mask(len(data.groups), config.n_held_out, seed)
        self.train_rows = np.flatnonzero(~held_out)
        self.held_out_rows = np.flatnonzero(held_out)

    @property
    def n_held_out(self) -> int:
        """Number of held-out pairs."""
        return len(self.held_out_rows)

    def batches(self, epoch: int) -> list[SeededBatch]:
        """The pairs of each update of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        rows = rng.permutation(self.train_rows)
        rows = rows[_order_of_parts(self.data.groups[rows], self.config.targets_together, rng)]
        batches = np.array_split(rows, max(1, len(rows) // self.config.pairs_per_update))
        return in_random_order(batches, (self.seed, epoch), rng)

    def n_words(self, rows: NDArray[np.int64]) -> float:
        """The weight of the words of some pairs, </s> included."""
        return float(self.data.weights[rows] @ (self.data.target_lens[rows] + 1))

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed weighted loss of the pairs of a batch, and the weight of their words."""
        return self.losses.of_update(self.data, batch), self.n_words(batch.rows)

    def held_out(self) -> PairTask:
        """The task without its training pairs; their memory may go."""
        alone = copy.copy(self)
        alone.data = self.data.part(self.held_out_rows)
        alone.train_rows = self.train_rows[:0]
        alone.held_out_rows = np.arange(self.n_held_out)
        return alone

    @property
    def held_out_words_per_pair(self) -> float | None:
        """Words with </s>, weighted as in training; None if there are no held-out pairs."""
        rows = self.held_out_rows
        return float(self.n_words(rows) / self.data.weights[rows].sum()) if len(rows) else None

    def held_out_loss(self) -> float | None:
        """Nats per word of the held-out pairs, weighted as in training; None if there are none."""
        total = n_words = 0.0
        for start in range(0, len(self.held_out_rows), HELD_OUT_BATCH_PAIRS):
            rows = self.held_out_rows[start : start + HELD_OUT_BATCH_PAIRS]
            total += float(self.losses.of_held_out(self.data, rows))
            n_words += self.n_words(rows)
        return total / n_words if n_words else None


def _order_of_parts(
    groups: NDArray[np.int64], together: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """An order of pairs in which parts of sources are adjacent, the parts in random order.

    Args:
        groups: the source of each pair, *Shape:* (n,).
        together: pairs of a part at most; None for whole sources.
        rng: says in which order.
    """
    by_source = np.argsort(groups, kind="stable")
    sources = groups[by_source]
    places = np.arange(len(sources)) - np.searchsorted(sources, sources)
    begins = places % together == 0 if together else places == 0
    parts = np.cumsum(begins) - 1
    return by_source[np.argsort(rng.permutation(len(parts))[parts], kind="stable")]
