"""Training of a recurrent network on sentence pairs: settings, batches and losses.

A batch holds sentences of about the same length, so that most of them are still being read at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.array_file import parts
from moses_bridge.base.config import AtLeast, Below, check_limits
from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath
from rescorer.contract.choices import Reading
from rescorer.contract.data import FORMER_READING_KEYS, Data, goes_right_to_left, reverses_sides
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.layers.predicted import UpdateLoss
from rescorer.layers.sampled import WordSampler
from rescorer.layers.step_linear import shared_steps
from rescorer.training.held_out import digest, held_out_mask
from rescorer.training.loop import LoopConfig
from rescorer.training.mapped_text import mapped_phrases
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.recipes import RecipeName
from rescorer.training.seeded_batch import SeededBatch, in_random_order
from rescorer.training.text import SENTENCES_AT_ONCE, SpilledLines, read_parallel_text, turned_lines
from rescorer.tries.loss import pairs_loss, predictions

# Words of held-out sentences scored at a time, so that memory does not grow with their number.
HELD_OUT_BATCH_WORDS = 4096
# Batches cut from the sentences of one draw, ordered by length: Bahdanau et al. (2015), appendix B.2.
BATCHES_OF_A_DRAW = 20


class SentenceRecipe(NamedTuple):
    """What a recipe means for sentence pairs.

    Attributes:
        unit: what a batch is measured in.
        size: of an update, in units.
        samples: whether the softmax may be taken over a sample.
    """

    unit: Literal["words", "pairs"]
    size: int
    samples: bool


# 80 pairs, in order of length within 20 batches: Bahdanau et al. (2015), appendix B.2.
SENTENCE_RECIPES: dict[RecipeName, SentenceRecipe] = {
    "adam": SentenceRecipe("words", 2048, samples=True),
    "paper": SentenceRecipe("pairs", 80, samples=False),
}


@dataclass(frozen=True)
class SentenceTrainingConfig:
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
        loop: recipe and limits.
    """

    shortlist: Annotated[int, AtLeast(1)] = 15_000
    max_sentence_words: Annotated[int, AtLeast(1)] = 80
    n_held_out: Annotated[int, AtLeast(0)] = 1_000
    batch_size: Annotated[int, AtLeast(0)] = 0
    n_sampled: Annotated[int, AtLeast(0)] = 2_000
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.2
    reading: Reading = "as-is"
    self_normalisation: Annotated[float, AtLeast(0)] = 0.0
    loop: LoopConfig = field(default_factory=LoopConfig)
    former_keys: ClassVar[Mapping[str, str]] = FORMER_READING_KEYS

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def recipe(self) -> SentenceRecipe:
        """The recipe, with the configured size of an update."""
        recipe = SENTENCE_RECIPES[self.loop.recipe]
        return recipe._replace(size=self.batch_size or recipe.size)


def prepare_sentences(
    data: Data,
    config: SentenceTrainingConfig,
    seed: int,
    new_network: Callable[[Shortlists], nn.Module],
) -> Prepared:
    """Read parallel text and make a network for its words.

    Args:
        data: target text and its source.
        config: settings.
        seed: of held-out pairs, order and samples.
        new_network: makes the network, which must be a `Recurrent`.

    Raises:
        InputError: the texts have not as many lines, or no pair is short enough.
    """
    text = read_parallel_text(data)
    sides = text.sources, text.targets
    if reverses_sides(config.reading):
        sides = text.targets, text.sources
    shortlists = data.shortlists or Shortlists(
        *(Vocabulary.from_counts(count_words(side), config.shortlist) for side in sides)
    )
    targets = turned_lines(sides[1]) if goes_right_to_left(config.reading) else sides[1]
    pairs = encode_sentences(sides[0], targets, shortlists, config.max_sentence_words, data.path)
    network = new_network(shortlists)
    task = SentenceTask(network, pairs, config, seed)
    record = {"n_sentences": len(text.targets)}
    return Prepared(network, task, shortlists, digest(text.content()), record)


def encode_sentences(
    sources: Iterable[bytes],
    targets: Iterable[bytes],
    shortlists: Shortlists,
    max_words: int,
    path: StrPath,
) -> EncodedPairs:
    """Sentence pairs as word ids in mapped files; those with a longer side are left out.

    Raises:
        InputError: none is left.
    """
    source, target = shortlists
    assert source is not None
    kept = SpilledLines(), SpilledLines()
    for pair in zip(sources, targets, strict=True):
        if all(len(side.split()) <= max_words for side in pair):
            for lines, side in zip(kept, pair, strict=True):
                lines.append(side)
    n_kept = len(kept[0])
    if not n_kept:
        raise InputError(
            path, None, "only longer sentences", f"pairs of at most {max_words} words a side"
        )
    sources, source_lens = mapped_phrases(source, kept[0])
    targets, target_lens = mapped_phrases(target, kept[1])
    return EncodedPairs(
        sources=sources,
        source_lens=source_lens,
        targets=targets,
        target_lens=target_lens,
        groups=np.arange(n_kept),
        weights=np.ones(n_kept),
    )


class SentenceTask:
    """The batches and losses of sentence pairs.

    Args:
        network: is trained; a `Recurrent`.
        data: all pairs.
        config: settings.
        seed: of the held-out pairs, of the order and of the samples.
    """

    def __init__(
        self, network: Any, data: EncodedPairs, config: SentenceTrainingConfig, seed: int
    ) -> None:
        self.network = network
        self.data = data
        self.config = config
        self.seed = seed
        held_out = held_out_mask(len(data.groups), config.n_held_out, seed)
        self.train_rows = np.flatnonzero(~held_out)
        self.held_out_rows = np.flatnonzero(held_out)
        self._product_type = config.loop.product_dtype
        self._n_words = data.target_lens + 1
        self._update_loss = UpdateLoss(
            network.output,
            self._new_sampler() if self._samples else None,
            self._product_type,
            config.self_normalisation,
        )

    @property
    def _samples(self) -> bool:
        return bool(self.config.n_sampled) and self.config.recipe.samples

    def _new_sampler(self) -> WordSampler:
        counts = np.zeros(self.network.output.out_features, np.int64)
        for first, end in parts(len(self.train_rows), SENTENCES_AT_ONCE):
            rows = self.train_rows[first:end]
            targets = self.data.targets[rows]
            inside = np.arange(targets.shape[1]) < self._n_words[rows, None]
            counts += np.bincount(targets[inside], minlength=len(counts))
        return WordSampler(counts / counts.sum(), self.config.recipe.size, self.config.n_sampled)

    @property
    def n_held_out(self) -> int:
        """Number of held-out pairs."""
        return len(self.held_out_rows)

    def batches(self, epoch: int) -> list[SeededBatch]:
        """The pairs of each update of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        recipe = self.config.recipe
        sizes = self._n_words if recipe.unit == "words" else np.ones_like(self._n_words)
        order = rng.permutation(self.train_rows)
        batches = [
            batch
            for draw in cut(order, sizes, BATCHES_OF_A_DRAW * recipe.size)
            for batch in cut(self._by_length(draw), sizes, recipe.size)
        ]
        return in_random_order(batches, (self.seed, epoch), rng)

    def _by_length(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        lens = (self.data.source_lens[rows], self.data.target_lens[rows])
        return np.asarray(rows[np.lexsort(lens)])

    @property
    def batch_size(self) -> int:
        """Words or pairs of an update."""
        return self.config.recipe.size

    def parts(self, batch: SeededBatch, n_parts: int) -> list[SeededBatch]:
        """See `SeededBatch.parts`."""
        return batch.parts(n_parts)

    def n_words(self, batch: SeededBatch) -> float:
        """How many target words the pairs of a batch have, </s> included."""
        return float(self._n_words[batch.rows].sum())

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed loss of the pairs of a batch, and how many words they have."""
        rng = np.random.default_rng(batch.seed)
        torch.manual_seed(int(rng.integers(2**62)) + batch.part)
        with shared_steps(self.network, self._product_type):
            factors, predicted = predictions(self.network, self.data, batch.rows)
        others = self.data.targets[batch.others].ravel()
        loss = self._update_loss.of(factors, predicted, rng, others)
        return loss, self.n_words(batch)

    def held_out_loss(self) -> float | None:
        """Nats per word, </s> included; None if nothing is held out."""
        rows = self._by_length(self.held_out_rows)
        total = sum(
            float(pairs_loss(self.network, self.data, part, torch.float32))
            for part in cut(rows, self._n_words, HELD_OUT_BATCH_WORDS)
        )
        return total / float(self._n_words[rows].sum()) if len(rows) else None


def cut(
    rows: NDArray[np.int64], sizes: NDArray[np.int64], size: int
) -> Iterator[NDArray[np.int64]]:
    """Runs of rows of about a size each, in their order.

    Args:
        rows: *Shape:* (n,).
        sizes: of all rows, not only of the requested ones.
        size: of a run, the sum of its rows' sizes.
    """
    if not len(rows):
        return
    own = sizes[rows]
    numbers = (np.cumsum(own) - own) // size
    yield from np.split(rows, np.flatnonzero(np.diff(numbers)) + 1)
