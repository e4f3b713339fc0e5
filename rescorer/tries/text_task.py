"""Training of a recurrent network on target text alone: settings, batches and losses.

The sentences of a batch are in one tree, so shared beginnings are computed once; the loss
is the same number as sentence by sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.array_file import parts
from moses_bridge.base.config import AtLeast, Below, check_limits
from rescorer.contract.data import FORMER_READING_KEYS, TextReading
from rescorer.contract.vocabulary import Vocabulary
from rescorer.layers.predicted import Predicted, UpdateLoss, output_loss
from rescorer.layers.sampled import WordSampler
from rescorer.layers.step_linear import shared_steps
from rescorer.training.dropout import with_dropout
from rescorer.training.loop import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch, in_random_order
from rescorer.training.text import SENTENCES_AT_ONCE
from rescorer.tries.loss import predictions

# Words of held-out text scored at once, so that memory does not grow with their number.
HELD_OUT_BATCH_WORDS = 8192
# Sentences are sorted by their length within this many batches' worth of text drawn at random.
POOL_BATCHES = 50


@dataclass(frozen=True)
class TextTrainingConfig:
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
        loop: recipe and limits.
    """

    shortlist: Annotated[int, AtLeast(1)] = 15_000
    max_sentence_words: Annotated[int, AtLeast(1)] = 100
    n_held_out: Annotated[int, AtLeast(0)] = 1_000
    batch_words: Annotated[int, AtLeast(1)] = 1024
    n_sampled: Annotated[int, AtLeast(0)] = 1500
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.0
    reading: TextReading = "as-is"
    self_normalisation: Annotated[float, AtLeast(0)] = 0.0
    loop: LoopConfig = field(default_factory=LoopConfig)
    former_keys: ClassVar[Mapping[str, str]] = FORMER_READING_KEYS

    def __post_init__(self) -> None:
        check_limits(self)


class EncodedText(NamedTuple):
    """Sentences as word ids.

    Attributes:
        ids: one after another, *Shape:* (n_words,).
        lens: words in each sentence, *Shape:* (n,).
    """

    ids: NDArray[np.int32]
    lens: NDArray[np.int64]

    def padded(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """The ids of some sentences, 0 behind the end of each, *Shape:* (n_rows, max_len)."""
        starts = (np.cumsum(self.lens) - self.lens)[rows]
        places = np.arange(int(self.lens[rows].max(initial=0)))
        inside = places < self.lens[rows, None]
        result = np.zeros(inside.shape, np.int32)
        result[inside] = self.ids[(starts[:, None] + places)[inside]]
        return result


class TextTask:
    """The batches and losses of sentences.

    Args:
        network: is trained; a `Recurrent` that needs no source.
        text: all sentences.
        held_out: which of them are held out, *Shape:* (n,).
        config: settings.
        seed: of the order and the samples.
    """

    def __init__(
        self,
        network: Any,
        text: EncodedText,
        held_out: NDArray[np.bool_],
        config: TextTrainingConfig,
        seed: int,
    ) -> None:
        self.network = network
        self.text = text
        self.config = config
        self.seed = seed
        self.train_rows = np.flatnonzero(~held_out & (text.lens <= config.max_sentence_words))
        self.held_out_rows = np.flatnonzero(held_out)
        self._product_type = config.loop.product_dtype
        shares = _word_shares(text, self.train_rows, network.output.out_features)
        self._sampler = WordSampler(shares, config.batch_words, config.n_sampled)
        self._update_loss = UpdateLoss(
            network.output,
            self._sampler if config.n_sampled else None,
            self._product_type,
            config.self_normalisation,
        )

    @property
    def n_held_out(self) -> int:
        """Number of held-out sentences."""
        return len(self.held_out_rows)

    def batches(self, epoch: int) -> list[SeededBatch]:
        """The sentences of each update of an epoch: of like length, so that no level is thin."""
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(self.train_rows)
        pool = np.cumsum(self.text.lens[order] + 1) // (POOL_BATCHES * self.config.batch_words)
        order = order[np.lexsort([self.text.lens[order], pool])]
        parts = _cut_by_words(order, self.text.lens, self.config.batch_words)
        return in_random_order(parts, (self.seed, epoch), rng)

    @property
    def batch_size(self) -> int:
        """Words of an update."""
        return self.config.batch_words

    def parts(self, batch: SeededBatch, n_parts: int) -> list[SeededBatch]:
        """See `SeededBatch.parts`."""
        return batch.parts(n_parts)

    def n_words(self, batch: SeededBatch) -> float:
        """How many words the sentences of a batch have, </s> included."""
        return self._n_words(batch.rows)

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed loss of the sentences of a batch, and how many words they have, </s> included."""
        rng = np.random.default_rng(batch.seed)
        with shared_steps(self.network, self._product_type):
            factors, predicted = self._predicted(batch.rows)
        factors = with_dropout(factors, self.config.dropout, rng, batch.part)
        others = self.text.padded(batch.others).ravel()
        return self._update_loss.of(factors, predicted, rng, others), self.n_words(batch)

    def held_out_loss(self) -> float | None:
        """Nats per word, </s> included; None if nothing is held out."""
        total = 0.0
        order = self.held_out_rows[np.argsort(self.text.lens[self.held_out_rows], kind="stable")]
        for rows in _cut_by_words(order, self.text.lens, HELD_OUT_BATCH_WORDS):
            total += float(output_loss(self.network.output, *self._predicted(rows), torch.float32))
        return total / self._n_words(self.held_out_rows) if self.n_held_out else None

    def _n_words(self, rows: NDArray[np.int64]) -> float:
        return float((self.text.lens[rows] + 1).sum())

    def _predicted(self, rows: NDArray[np.int64]) -> tuple[Tensor, Predicted]:
        """Factors of the distinct prefixes of some sentences, and what follows them."""
        n = len(rows)
        pairs = EncodedPairs(
            sources=np.full((1, 1), Vocabulary.end_id, np.int32),
            source_lens=np.zeros(1, np.int64),
            targets=self.text.padded(rows),
            target_lens=self.text.lens[rows],
            groups=np.zeros(n, np.int64),
            weights=np.ones(n),
        )
        return predictions(self.network, pairs, np.arange(n))


def _word_shares(text: EncodedText, rows: NDArray[np.int64], n_words: int) -> NDArray[np.float64]:
    """How much of the predicted words each word is, </s> included, *Shape:* (n_words,)."""
    chosen = np.zeros(len(text.lens), np.bool_)
    chosen[rows] = True
    counts, n_before = np.zeros(n_words, np.int64), 0
    for first, end in parts(len(text.lens), SENTENCES_AT_ONCE):
        is_chosen = np.repeat(chosen[first:end], text.lens[first:end])
        ids = text.ids[n_before : n_before + len(is_chosen)]
        counts += np.bincount(ids[is_chosen], minlength=n_words)
        n_before += len(ids)
    counts[Vocabulary.end_id] += len(rows)
    return np.asarray(counts / max(1, counts.sum()), np.float64)


def _cut_by_words(
    rows: NDArray[np.int64], lens: NDArray[np.int64], batch_words: int
) -> list[NDArray[np.int64]]:
    """The rows in runs of about batch_words words with </s>; no run is empty."""
    last = np.cumsum(lens[rows] + 1) - 1
    return np.split(rows, np.flatnonzero(np.diff(last // batch_words)) + 1) if len(rows) else []
