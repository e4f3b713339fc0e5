"""Settings of trainings on phrase pairs, sentence pairs and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from moses_bridge.base.config import AtLeast, AtMost, Below, Limited
from rescorer.contract.choices import (
    FORMER_READING_KEYS,
    PairReading,
    Reading,
    TextReading,
    Weighting,
)
from rescorer.training.loop_config import LoopConfig, RecipeName

Batching = Literal["sources", "parts", "pairs"]
# Targets of a source that come into a batch together. 4 learned quickest of 1, 2, 3, 4, 8 and all
# (docs/decisions/sampled-updates.md): more share more work, but make a batch less varied.
TARGETS_TOGETHER: dict[Batching, int | None] = {"sources": None, "parts": 4, "pairs": 1}


# An H100 learned six times as many pairs a second so as with 512 an update, and needs more passes for as many
# updates.
GPU_PAIRS = 4096


class PairRecipe(NamedTuple):
    """Pairs of an update, which come together, and whether a softmax may be over a sample of the words."""

    batch_pairs: int
    batching: Batching
    samples: bool


# 64 pairs at random are those of Cho et al. (2014), section 4.1.
PAIR_RECIPES: dict[RecipeName, PairRecipe] = {
    "adam": PairRecipe(512, "parts", samples=True),
    "paper": PairRecipe(64, "pairs", samples=False),
}


@dataclass(frozen=True)
class PairTrainingConfig(Limited):
    """Settings of a training on phrase pairs.

    Attributes:
        max_phrase_words: pairs with a longer side are not learned from.
        weighting: how much a pair counts: "distinct" (the paper), "sqrt-count" or "count".
        min_prob: pairs with a lower p(target | source), the table's third score, are not learned from,
            whichever side is predicted.
        max_pairs: maximum number of pairs, drawn at random; 0 for all.
        pool_pairs: pairs in memory at a time, some 150 bytes each. Of a larger table, batches are
            drawn from one pool after another, each a sample of the sources of the whole table.
        shortlist: words of each side, </s> and <unk> not counted.
        shortlist_coverage: instead of their number the share of the running words of each side they
            make up (Cho et al. 2014, section 4.1: 0.93), 0 for none. `--texts` names the text to
            count; without it these are the words of the phrase pairs.
        n_held_out: pairs not learned from.
        batch_pairs: pairs of an update; 0 takes 64 with the recipe "paper", 512 otherwise. On a GPU `rescorer
            train` takes 4,096, a `learning_rate` of 4e-3 and 12 passes for a recurrent network, if not given.
        batching: "sources" puts all targets of a source into one batch, so that they share work. "parts"
            puts four of them at a time, so that a batch is more varied. "pairs" draws pairs at random, as
            in the paper. "auto" takes "parts" with the recipe "adam", "pairs" with "paper".
        reading: "reversed-sides" learns p(source | target): the network reads the targets of the table and
            predicts its sources. The model's record says so, and its scores of a table are those then.
        loop: recipe and limits; by default 3 passes with a learning rate of 6e-3.
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
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(learning_rate=6e-3, n_epochs=3))
    former_keys: ClassVar[Mapping[str, str]] = FORMER_READING_KEYS

    @property
    def pairs_per_update(self) -> int:
        """Pairs of an update."""
        return self.batch_pairs or PAIR_RECIPES[self.loop.recipe].batch_pairs

    @property
    def targets_together(self) -> int | None:
        """How many targets of a source come into a batch together; None for all."""
        recipe = PAIR_RECIPES[self.loop.recipe]
        return TARGETS_TOGETHER[recipe.batching if self.batching == "auto" else self.batching]


@dataclass(frozen=True)
class RecurrentTrainingConfig(PairTrainingConfig):
    """Settings of a training of a recurrent network, which predicts word after word, on phrase pairs.

    Attributes:
        n_sampled: words beside those of the batch over which the softmax of an update is taken, drawn
            anew each time; 0 takes the whole shortlist, as the recipe "paper" always does. Held-out losses
            are always exact.
        self_normalisation: weight alpha of log^2 Z in the loss (Devlin et al. 2014, section 2.3, use
            0.1), with which `rescorer score --unnormalized` can leave the denominator Z out; 0 for none.
    """

    n_sampled: Annotated[int, AtLeast(0)] = 1_000
    self_normalisation: Annotated[float, AtLeast(0)] = 0.0

    @classmethod
    def of_gpu(cls) -> Self:
        """The defaults on a GPU, which is idle most of the time with small updates."""
        defaults = cls()
        loop = replace(defaults.loop, learning_rate=4e-3, n_epochs=12)
        return replace(defaults, batch_pairs=GPU_PAIRS, loop=loop)

    def for_gpu(self, over_defaults: Self) -> Self:
        """The same settings over the defaults of a GPU, unless an update of another size is given."""
        return self if self.batch_pairs or self.loop.recipe != "adam" else over_defaults

    @property
    def samples(self) -> bool:
        """Whether the softmax of an update is taken over a sample of the words."""
        return bool(self.n_sampled) and PAIR_RECIPES[self.loop.recipe].samples


class SentenceRecipe(NamedTuple):
    """Size of an update, in units, and whether the softmax may be taken over a sample."""

    unit: Literal["words", "pairs"]
    size: int
    samples: bool


# 80 pairs, in order of length within 20 batches: Bahdanau et al. (2015), appendix B.2.
SENTENCE_RECIPES: dict[RecipeName, SentenceRecipe] = {
    "adam": SentenceRecipe("words", 2048, samples=True),
    "paper": SentenceRecipe("pairs", 80, samples=False),
}


@dataclass(frozen=True)
class SentenceTrainingConfig(Limited):
    """Settings of a training on sentence pairs.

    Attributes:
        shortlist: words of each side, </s> and <unk> not counted.
        max_sentence_words: pairs with a longer side are not learned from.
        n_held_out: pairs not learned from.
        batch_size: of an update, target words with the recipe "adam" (0 takes 2048), pairs with the recipe
            "paper" (0 takes 80).
        n_sampled: words beside those of the batch over which the softmax of an update is taken, drawn
            anew each time; 0 takes the whole shortlist, as the recipe "paper" always does. Held-out losses
            are always exact.
        dropout: share of the words' vectors and of the readout left out in training.
        reading: "reversed-sides" learns p(source | target): the network reads the target text and predicts the
            source. "right-to-left" predicts the last word first, "reversed-sides-right-to-left" the last word
            of the source. The model's record says so, and its values of sentence pairs are those then.
        self_normalisation: weight alpha of log^2 Z in the loss (Devlin et al. 2014, section 2.3, use
            0.1), with which `rescorer nbest --unnormalized` can leave the denominator Z out; 0 for none.
        loop: recipe and limits; by default 5 passes.
    """

    shortlist: Annotated[int, AtLeast(1)] = 15_000
    max_sentence_words: Annotated[int, AtLeast(1)] = 80
    n_held_out: Annotated[int, AtLeast(0)] = 1_000
    batch_size: Annotated[int, AtLeast(0)] = 0
    n_sampled: Annotated[int, AtLeast(0)] = 2_000
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.2
    reading: Reading = "as-is"
    self_normalisation: Annotated[float, AtLeast(0)] = 0.0
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(n_epochs=5))
    former_keys: ClassVar[Mapping[str, str]] = FORMER_READING_KEYS

    @property
    def recipe(self) -> SentenceRecipe:
        """The recipe, with the configured size of an update."""
        recipe = SENTENCE_RECIPES[self.loop.recipe]
        return recipe._replace(size=self.batch_size or recipe.size)


@dataclass(frozen=True)
class TextTrainingConfig(Limited):
    """Settings of a training of a recurrent network on target text.

    Attributes:
        shortlist: words, </s> and <unk> not counted.
        max_sentence_words: longer sentences are not learned from.
        n_held_out: sentences not learned from.
        batch_words: predicted words of an update, </s> included, in whole sentences.
        n_sampled: words beside those of the batch over which the softmax of an update is taken, drawn
            anew each time; 0 takes the whole shortlist. Held-out losses are always exact.
        dropout: share of the units below the softmax left out in training.
        reading: "right-to-left" predicts the last word first; the model's record says so, and values, samples
            and perplexities are of text in its own order.
        self_normalisation: weight alpha of log^2 Z in the loss (Devlin et al. 2014, section 2.3, use
            0.1), with which `rescorer score --unnormalized` can leave the denominator Z out; 0 for none.
        loop: recipe and limits; by default 6 passes.
    """

    shortlist: Annotated[int, AtLeast(1)] = 15_000
    max_sentence_words: Annotated[int, AtLeast(1)] = 100
    n_held_out: Annotated[int, AtLeast(0)] = 1_000
    batch_words: Annotated[int, AtLeast(1)] = 1024
    n_sampled: Annotated[int, AtLeast(0)] = 1500
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.0
    reading: TextReading = "as-is"
    self_normalisation: Annotated[float, AtLeast(0)] = 0.0
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(n_epochs=6))
    former_keys: ClassVar[Mapping[str, str]] = FORMER_READING_KEYS
