"""Training on sentences: pairs of them, and target text alone.

A batch holds sentences of about the same length, so that most are still being read at each step. Those of a
text are in one tree, so shared beginnings are computed once; the loss equals that of single sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.words import turned_words
from rescorer.contract.choices import goes_right_to_left, reverses_sides
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.layers.predicted import WordSampler
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch, digest, held_out_mask, in_random_order
from rescorer.training.text import SpilledLines, mapped_phrases, read_parallel_text
from rescorer.tries.settings import SentenceTrainingConfig, TextTrainingConfig
from rescorer.tries.task import TrieTask, recurrent_losses, word_shares

# Words of held-out sentence pairs and of held-out text that are scored at a time, to limit memory.
HELD_OUT_PAIR_WORDS, HELD_OUT_TEXT_WORDS = 4096, 8192
# Batches cut from the sentences of one draw, ordered by length: Bahdanau et al. (2015), appendix B.2.
BATCHES_OF_A_DRAW = 20
# The same for text.
TEXT_BATCHES_OF_A_DRAW = 50


def prepare_sentences(
    data: Data,
    config: SentenceTrainingConfig,
    seed: int,
    new_network: Callable[[Any, Shortlists], nn.Module],
) -> Prepared:
    """Read parallel text and make a network for its words, a `Recurrent`, from settings and shortlists.

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
    targets = map(turned_words, sides[1]) if goes_right_to_left(config.reading) else sides[1]
    pairs = encode_sentences(sides[0], targets, shortlists, config.max_sentence_words, data.path)
    network = new_network(config, shortlists)
    task = sentence_task(network, pairs, config, seed)
    record = {"n_sentences": len(text.targets)}
    return Prepared(network, task, shortlists, digest(text.content()), record)


def sentence_task(
    network: Any, data: EncodedPairs, config: SentenceTrainingConfig, seed: int
) -> TrieTask:
    """The task of a `Recurrent` network with its own dropout."""
    source = SentencePairs(data, config, seed)
    losses = recurrent_losses(
        network,
        config.loop.product_dtype,
        _sampler(source, network, config.n_sampled) if config.recipe.samples else None,
        config.self_normalisation,
        has_dropout=True,
    )
    return TrieTask(source, losses)


def text_task(
    network: Any,
    text: EncodedText,
    held_out: NDArray[np.bool_],
    config: TextTrainingConfig,
    seed: int,
) -> TrieTask:
    """The task of a `Recurrent` network without a source; see `Sentences`."""
    source = Sentences(text, held_out, config, seed)
    losses = recurrent_losses(
        network,
        config.loop.product_dtype,
        _sampler(source, network, config.n_sampled),
        config.self_normalisation,
        config.dropout,
    )
    return TrieTask(source, losses)


def _sampler(source: SentencePairs | Sentences, network: Any, n_sampled: int) -> WordSampler | None:
    """The sampler of the words of an update; None for all."""
    if not n_sampled:
        return None
    shares = word_shares(source, source.train_rows, network.output.out_features)
    return WordSampler(shares, source.batch_size, n_sampled)


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


class SentencePairs:
    """Sentence pairs; a `BatchSource`. The seed is of the held-out pairs and of the order."""

    def __init__(self, data: EncodedPairs, config: SentenceTrainingConfig, seed: int) -> None:
        self.data, self.config, self.seed = data, config, seed
        held_out = held_out_mask(len(data), config.n_held_out, seed)
        self.train_rows, self.held_out_rows = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self.n_held_out, self.batch_size = len(self.held_out_rows), config.recipe.size
        self._n_words = data.target_lens + 1

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

    def located(self, batch: SeededBatch) -> tuple[EncodedPairs, SeededBatch]:
        """See `BatchSource`."""
        return self.data, batch

    def held_out(self) -> Iterator[tuple[EncodedPairs, NDArray[np.int64]]]:
        """See `BatchSource`."""
        for rows in cut(self._by_length(self.held_out_rows), self._n_words, HELD_OUT_PAIR_WORDS):
            yield self.data, rows


class EncodedText(NamedTuple):
    """Sentences as word ids, one after another, *Shape:* (n_words,), and the words in each, *Shape:* (n,)."""

    ids: NDArray[np.int32]
    lens: NDArray[np.int64]

    def padded(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """The ids of some sentences, </s> (0) after the end of each, *Shape:* (n_rows, max_len + 1)."""
        starts = (np.cumsum(self.lens) - self.lens)[rows]
        places = np.arange(int(self.lens[rows].max(initial=0)) + 1)
        inside = places < self.lens[rows, None]
        result = np.zeros(inside.shape, np.int32)
        result[inside] = self.ids[(starts[:, None] + places)[inside]]
        return result


class Sentences:
    """Text; a `BatchSource`. `held_out` marks sentences, *Shape:* (n,); the seed is of the order."""

    def __init__(
        self, text: EncodedText, held_out: NDArray[np.bool_], config: TextTrainingConfig, seed: int
    ) -> None:
        self.text, self.config, self.seed = text, config, seed
        self.train_rows = np.flatnonzero(~held_out & (text.lens <= config.max_sentence_words))
        self.held_out_rows = np.flatnonzero(held_out)
        self.n_held_out, self.batch_size = len(self.held_out_rows), config.batch_words

    def batches(self, epoch: int) -> list[SeededBatch]:
        """The sentences of each update of an epoch: of like length, so that no level is thin."""
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(self.train_rows)
        draws = np.cumsum(self.text.lens[order] + 1) // (TEXT_BATCHES_OF_A_DRAW * self.batch_size)
        order = order[np.lexsort([self.text.lens[order], draws])]
        return in_random_order(self._cut(order, self.batch_size), (self.seed, epoch), rng)

    def located(self, batch: SeededBatch) -> tuple[EncodedPairs, SeededBatch]:
        """See `BatchSource`."""
        rows = np.concatenate([batch.rows, batch.others])
        numbers = np.split(np.arange(len(rows)), [len(batch.rows)])
        return self._pairs(rows), batch._replace(rows=numbers[0], others=numbers[1])

    def held_out(self) -> Iterator[tuple[EncodedPairs, NDArray[np.int64]]]:
        """See `BatchSource`."""
        by_length = np.argsort(self.text.lens[self.held_out_rows], kind="stable")
        for rows in self._cut(self.held_out_rows[by_length], HELD_OUT_TEXT_WORDS):
            yield self._pairs(rows), np.arange(len(rows))

    def _cut(self, rows: NDArray[np.int64], n_words: int) -> list[NDArray[np.int64]]:
        return _runs(rows, (np.cumsum(self.text.lens[rows] + 1) - 1) // n_words)

    def _pairs(self, rows: NDArray[np.int64]) -> EncodedPairs:
        return EncodedPairs(
            sources=np.full((1, 1), Vocabulary.end_id, np.int32),
            source_lens=np.zeros(1, np.int64),
            targets=self.text.padded(rows),
            target_lens=self.text.lens[rows],
            groups=np.zeros(len(rows), np.int64),
            weights=np.ones(len(rows)),
        )


def cut(rows: NDArray[np.int64], sizes: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Runs of rows (n,) in their order, of about a size each: the sum of those that `sizes` has of all."""
    own = sizes[rows]
    return _runs(rows, (np.cumsum(own) - own) // size)


def _runs(rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The rows in runs of equal numbers, none empty."""
    return np.split(rows, np.flatnonzero(np.diff(numbers)) + 1) if len(rows) else []
