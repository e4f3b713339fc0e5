"""Training of a recurrent network on phrase pairs: settings, batches and losses.

A batch holds whole sources with their targets, which share most work, or pairs drawn at random (the paper's
way).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.config import AtLeast, AtMost, check_limits
from moses_bridge.progress import print_note
from moses_bridge.textio import read_lines
from rescorer.contract import Data, Prepared, Shortlists
from rescorer.training.data import digest, held_out_mask
from rescorer.training.loop import LoopConfig
from rescorer.training.phrase_pairs import Weighting, read_pairs, sampled, sides_swapped
from rescorer.training.recipes import RecipeName
from rescorer.training.shortlists import choose_shortlists
from rescorer.tries.loss import EncodedPairs, encode_pairs, pairs_loss
from rescorer.vocabulary import count_words

# Held-out pairs are scored so many at a time, so that memory does not grow with their number.
HELD_OUT_BATCH_PAIRS = 4096


class PairRecipe(NamedTuple):
    """What a recipe means for phrase pairs.

    Attributes:
        batch_pairs: pairs of an update.
        whole_sources: whether a batch holds all targets of its sources.
    """

    batch_pairs: int
    whole_sources: bool


# 512 pairs of whole sources reached the lowest held-out loss at equal time (docs/benchmarks.md); 64 pairs
# at random are those of Cho et al. (2014), section 4.1.
PAIR_RECIPES: dict[RecipeName, PairRecipe] = {
    "adam": PairRecipe(512, whole_sources=True),
    "paper": PairRecipe(64, whole_sources=False),
}


# The weighted sum of -log p, from the network, all pairs, the rows that are meant, the type of the output
# layer's products and the weight of log^2 Z; see `tries.loss.pairs_loss`.
PairsLoss = Callable[[Any, EncodedPairs, NDArray[np.int64], torch.dtype, float], Tensor]


@dataclass(frozen=True)
class PairTrainingConfig:
    """Settings of a training on phrase pairs.

    Attributes:
        max_phrase_words: pairs with a longer side are not learned from.
        weighting: how much a pair counts: "distinct" (the paper), "sqrt-count" or "count".
        min_prob: pairs with a lower p(target | source) in the table are not learned from, whichever side
            is predicted.
        max_pairs: so many pairs at most, drawn at random; 0 for all.
        shortlist: words of each side, </s> and <unk> not counted.
        shortlist_coverage: instead of their number the share of the running words of each side that they
            make up (Cho et al. 2014, section 4.1: 0.93), 0 for none. `--texts` names the text that is
            meant; without it these are the words of the phrase pairs.
        n_held_out: pairs that are not learned from.
        batch_pairs: pairs of an update; 0 takes 64 with the recipe "paper", 512 otherwise.
        batching: "sources" puts all targets of a source into one batch, so that they share work;
            "pairs" draws pairs at random, as the paper does; "auto" takes the recipe's way.
        reverse_sides: learn p(source | target): the network reads the targets of the table and predicts its
            sources. The model's record says so, and its scores of a table are those then.
        self_normalisation: weight alpha of log^2 Z in the loss (Devlin et al. 2014, section 2.3, use
            0.1), with which `rescorer score --unnormalized` can leave the denominator Z out; 0 for none.
        loop: recipe and limits; the default learning rate is 6e-3.
    """

    max_phrase_words: Annotated[int, AtLeast(1)] = 7
    weighting: Weighting = "distinct"
    min_prob: Annotated[float, AtLeast(0)] = 0.0
    max_pairs: Annotated[int, AtLeast(0)] = 0
    shortlist: Annotated[int, AtLeast(1)] = 15_000
    shortlist_coverage: Annotated[float, AtLeast(0), AtMost(1)] = 0.0
    n_held_out: Annotated[int, AtLeast(0)] = 5_000
    batch_pairs: Annotated[int, AtLeast(0)] = 0
    batching: Literal["auto", "sources", "pairs"] = "auto"
    reverse_sides: bool = False
    self_normalisation: Annotated[float, AtLeast(0)] = 0.0
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(learning_rate=6e-3))

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def pairs_per_update(self) -> int:
        """Pairs of an update."""
        return self.batch_pairs or PAIR_RECIPES[self.loop.recipe].batch_pairs

    @property
    def whole_sources(self) -> bool:
        """Whether a batch holds all targets of its sources."""
        if self.batching == "auto":
            return PAIR_RECIPES[self.loop.recipe].whole_sources
        return self.batching == "sources"


def prepare_pairs(
    data: Data,
    config: PairTrainingConfig,
    seed: int,
    new_network: Callable[[Shortlists], nn.Module],
    loss: PairsLoss = pairs_loss,
) -> Prepared:
    """Read the pairs of a phrase table and make a network for their words.

    Args:
        data: a phrase table; its distinct pairs are the data. Shortlists come from its `texts`.
        config: settings.
        seed: of held-out pairs and order.
        new_network: makes the network, which must be what `loss` takes.
        loss: of some pairs; the default takes a `Recurrent`.

    Raises:
        InputError: the table is malformed or has no usable pair.
    """
    pairs = read_pairs(data.path, config.max_phrase_words, config.weighting, config.min_prob)
    texts = data.texts
    if config.reverse_sides:
        pairs, texts = sides_swapped(pairs), texts and (texts[1], texts[0])
    if config.max_pairs:
        pairs = sampled(pairs, config.max_pairs, seed)
    if texts is None:
        counts = pairs.word_counts()
    else:
        counts = count_words(read_lines(texts[0])), count_words(read_lines(texts[1]))
    chosen = choose_shortlists(counts, config.shortlist, config.shortlist_coverage)
    print_note(str(chosen))
    shortlists = chosen.shortlists
    network = new_network(shortlists)
    task = PairTask(network, encode_pairs(pairs, shortlists), config, seed, loss)
    record = {
        "held_out_words_per_pair": task.held_out_words_per_pair,
        "shortlists": chosen.record(),
    }
    words = () if texts is None else (word for side in shortlists if side for word in side.words)
    return Prepared(network, task, shortlists, digest(chain(pairs.content(), words)), record)


class PairTask:
    """The batches and losses of phrase pairs; a batch is an array of pair numbers.

    Args:
        network: is trained; what `pairs_loss` takes.
        data: all pairs.
        config: settings.
        seed: of the held-out pairs and of the order.
        pairs_loss: of some pairs; the default takes a `Recurrent`.
    """

    def __init__(
        self,
        network: Any,
        data: EncodedPairs,
        config: PairTrainingConfig,
        seed: int,
        pairs_loss: PairsLoss = pairs_loss,
    ) -> None:
        self.network = network
        self.pairs_loss = pairs_loss
        self.data = data
        self.config = config
        self.seed = seed
        held_out = held_out_mask(len(data.groups), config.n_held_out, seed)
        self._product_type = config.loop.product_dtype
        self.train_rows = np.flatnonzero(~held_out)
        self.held_out_rows = np.flatnonzero(held_out)

    @property
    def n_held_out(self) -> int:
        """Pairs that are held out."""
        return len(self.held_out_rows)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """The pairs of each update of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        if self.config.whole_sources:
            return _source_batches(self.data, self.train_rows, self.config.pairs_per_update, rng)
        rows = rng.permutation(self.train_rows)
        return list(np.array_split(rows, max(1, len(rows) // self.config.pairs_per_update)))

    def loss(self, batch: NDArray[np.int64]) -> tuple[Tensor, float]:
        """Summed weighted loss of the pairs of a batch, and the weight of their words."""
        alpha = self.config.self_normalisation
        loss = self.pairs_loss(self.network, self.data, batch, self._product_type, alpha)
        n_words = self.data.weights[batch] @ (self.data.target_lens[batch] + 1)
        return loss, float(n_words)

    @property
    def held_out_words_per_pair(self) -> float | None:
        """Words with </s>, weighted as in training; None if there are no held-out pairs."""
        rows, weights = self.held_out_rows, self.data.weights
        words = weights[rows] @ (self.data.target_lens[rows] + 1)
        return float(words / weights[rows].sum()) if len(rows) else None

    def held_out_loss(self) -> float | None:
        """Nats per word of the held-out pairs, weighted as in training; None if there are none."""
        total = n_words = 0.0
        for start in range(0, len(self.held_out_rows), HELD_OUT_BATCH_PAIRS):
            rows = self.held_out_rows[start : start + HELD_OUT_BATCH_PAIRS]
            total += float(self.pairs_loss(self.network, self.data, rows, torch.float32, 0.0))
            n_words += float(self.data.weights[rows] @ (self.data.target_lens[rows] + 1))
        return total / n_words if n_words else None


def _source_batches(
    data: EncodedPairs, rows: NDArray[np.int64], batch_pairs: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Sources in random order, cut into batches; a source with very many targets is cut too."""
    order = rng.permutation(len(data.sources))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    shuffled = rng.permutation(rows)
    shuffled = shuffled[np.argsort(place[data.groups[shuffled]], kind="stable")]
    batches = np.array_split(shuffled, max(1, len(shuffled) // batch_pairs))
    return [batches[number] for number in rng.permutation(len(batches))]
