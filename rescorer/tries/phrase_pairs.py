"""Training on the pairs of a phrase table, with one pool in memory at a time.

A batch holds sources with all or some of their targets, which share work, or random pairs (the paper's way).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moses_bridge.base.array_file import parts
from moses_bridge.base.progress import print_note
from moses_bridge.base.text_lines import read_text_lines
from rescorer.contract.choices import reverses_sides
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, count_words
from rescorer.layers.predicted import WordSampler
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.pairs.pair_pools import PairPools, open_pairs
from rescorer.training.pairs.phrase_pairs import PairChoice
from rescorer.training.seeded_batch import SeededBatch, digest, held_out_mask, in_random_order
from rescorer.training.word_counts import ChosenShortlists, WordCounts, choose_shortlists
from rescorer.tries.settings import PairTrainingConfig, RecurrentTrainingConfig
from rescorer.tries.task import Losses, TrieTask, recurrent_losses

# Held-out pairs scored at a time, so that memory does not grow with their number.
HELD_OUT_BATCH_PAIRS = 4096


class PairWords(NamedTuple):
    """The words of the pairs learned from.

    Attributes:
        shortlists: of both sides.
        target_shares: the share of each target word in the running words of all targets, </s> included,
            *Shape:* (V,).
        words_per_pair: target words of a pair in the mean, </s> included.
    """

    shortlists: Shortlists
    target_shares: NDArray[np.float64]
    words_per_pair: float

    @classmethod
    def of(cls, shortlists: Shortlists, targets: WordCounts, n_pairs: int) -> PairWords:
        """From how often each word occurs in the targets of some pairs."""
        words = shortlists.target
        ids = words.encode_words(targets.words, len(targets.words))
        counts = np.bincount(ids, targets.counts, minlength=len(words))
        counts[words.end_id] += n_pairs
        return cls(shortlists, counts / counts.sum(), counts.sum() / n_pairs)


def prepare_recurrent(
    data: Data,
    config: RecurrentTrainingConfig,
    seed: int,
    new_network: Callable[[Any, Shortlists], nn.Module],
) -> Prepared:
    """As `prepare_pairs`, for a `Recurrent` network."""
    return prepare_pairs(data, config, seed, new_network, pair_losses)


def pair_losses(network: Any, config: RecurrentTrainingConfig, words: PairWords) -> Losses:
    """The losses of a `Recurrent` network."""
    n_words = round(config.pairs_per_update * words.words_per_pair)
    sampler = WordSampler(words.target_shares, n_words, config.n_sampled)
    return recurrent_losses(
        network,
        config.loop.product_dtype,
        sampler if config.samples else None,
        config.self_normalisation,
    )


def prepare_pairs(
    data: Data,
    config: PairTrainingConfig,
    seed: int,
    new_network: Callable[[Any, Shortlists], nn.Module],
    new_losses: Callable[[Any, Any, PairWords], Losses],
    whole_batches: bool = False,
) -> Prepared:
    """Read the distinct pairs of a phrase table and make a network for their words.

    Shortlists come from the data's `texts`, unless given. `new_network` makes the network from settings and
    shortlists, `new_losses` its losses from network, settings and words; for `whole_batches` see `TrieTask`.

    Raises:
        InputError: the table is malformed or has no usable pair, or `cache` is no cache.
        ConfigError: `cache` has other pairs.
    """
    pairs = open_pairs(
        data.path, choice_of(config), config.pool_pairs, config.max_pairs, seed, data.cache
    )
    of_pairs = pairs.word_counts()
    shortlists = data.shortlists
    record: dict[str, Any] = {}
    if shortlists is None:
        chosen = _chosen_shortlists(data, config, of_pairs)
        print_note(str(chosen))
        shortlists, record = chosen.shortlists, {"shortlists": chosen.record()}
    network = new_network(config, shortlists)
    losses = new_losses(network, config, PairWords.of(shortlists, of_pairs[1], sum(pairs.sizes)))
    source = PhrasePairs(PairPools(pairs, shortlists, config.weighting), config, seed)
    task = TrieTask(source, losses, whole_batches)
    record |= {
        "n_pairs": sum(pairs.sizes),
        "held_out_words_per_pair": source.held_out_words_per_pair,
    }
    words = (word for side in shortlists if data.texts and side for word in side.words)
    return Prepared(network, task, shortlists, digest(chain(pairs.content(), words)), record)


def choice_of(config: PairTrainingConfig) -> PairChoice:
    """Which rows of a table are learned from."""
    with_counts, reverses = config.weighting != "distinct", reverses_sides(config.reading)
    return PairChoice(config.max_phrase_words, config.min_prob, with_counts, reverses)


def _chosen_shortlists(
    data: Data, config: PairTrainingConfig, of_pairs: Sequence[WordCounts]
) -> ChosenShortlists:
    """The most frequent words of the texts, or of the pairs where there are none."""
    counts = of_pairs
    if data.texts is not None:
        texts = data.texts[::-1] if reverses_sides(config.reading) else data.texts
        counts = [WordCounts.of(count_words(read_text_lines(text))) for text in texts]
    return choose_shortlists(counts, config.shortlist, config.shortlist_coverage)


class PhrasePairs:
    """Phrase pairs in pools; a `BatchSource`.

    An epoch goes through the pools in random order. Held-out pairs are some of the first pool, a sample of all
    sources. The seed is of the held-out pairs, of the order and of what an update draws.
    """

    def __init__(self, pools: PairPools, config: PairTrainingConfig, seed: int) -> None:
        self.config, self.seed = config, seed
        self._pools, self._loaded = pools, (0, pools.load(0))
        self.held_out_pairs = self.pool(0).part(np.flatnonzero(self._held_out_mask(0)))
        self.n_held_out, self.batch_size = len(self.held_out_pairs), config.pairs_per_update
        self.sizes = [pools.sizes[0] - self.n_held_out, *pools.sizes[1:]]

    def pool(self, number: int) -> EncodedPairs:
        """The pairs of a pool; the one before leaves the memory."""
        if number != self._loaded[0]:
            del self._loaded
            self._loaded = number, self._pools.load(number)
        return self._loaded[1]

    def train_rows(self, pool: int) -> NDArray[np.int64]:
        """The pairs of a pool to learn from."""
        return np.flatnonzero(~self._held_out_mask(pool))

    def _held_out_mask(self, pool: int) -> NDArray[np.bool_]:
        n_held_out = 0 if pool else self.config.n_held_out
        return held_out_mask(self._pools.sizes[pool], n_held_out, self.seed)

    @property
    def held_out_words_per_pair(self) -> float | None:
        """Words with </s>, weighted as in training; None if there are no held-out pairs."""
        pairs = self.held_out_pairs
        n_words = pairs.n_words(np.arange(len(pairs)))
        return float(n_words / pairs.weights.sum()) if len(pairs) else None

    def batches(self, epoch: int) -> PoolBatches:
        """The pairs of each update of an epoch."""
        return PoolBatches(self, epoch)

    def located(self, batch: SeededBatch) -> tuple[EncodedPairs, SeededBatch]:
        """See `BatchSource`."""
        return self.pool(batch.pool), batch

    def held_out(self) -> Iterator[tuple[EncodedPairs, NDArray[np.int64]]]:
        """See `BatchSource`."""
        for bounds in parts(self.n_held_out, HELD_OUT_BATCH_PAIRS):
            yield self.held_out_pairs, np.arange(*bounds)

    def pool_batches(self, pool: int, epoch: int) -> list[SeededBatch]:
        """Those of an epoch with pairs of a pool."""
        rng = np.random.default_rng((self.seed, epoch))
        rows = rng.permutation(self.train_rows(pool))
        groups = self.pool(pool).groups[rows]
        rows = rows[_order_of_parts(groups, self.config.targets_together, rng)]
        batches = np.array_split(rows, max(1, len(rows) // self.batch_size))
        ordered = in_random_order(batches, (self.seed, epoch), rng)
        return [batch._replace(pool=pool) for batch in ordered]


class PoolBatches:
    """The batches of an epoch of `source`; those of a pool are drawn when the first of them is needed."""

    def __init__(self, source: PhrasePairs, epoch: int) -> None:
        self._source, self._epoch = source, epoch
        n_pools = len(source.sizes)
        self._order = np.random.default_rng((source.seed, epoch, n_pools)).permutation(n_pools)
        sizes = np.array([max(1, size // source.batch_size) for size in source.sizes])
        self._ends = np.cumsum(sizes[self._order])
        self._drawn: tuple[int | None, list[SeededBatch]] = None, []

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, number: int, /) -> SeededBatch:
        if not 0 <= number < len(self):
            raise IndexError(number)
        place = int(np.searchsorted(self._ends, number, side="right"))
        pool = int(self._order[place])
        if pool != self._drawn[0]:
            self._drawn = pool, self._source.pool_batches(pool, self._epoch)
        batches = self._drawn[1]
        return batches[number - int(self._ends[place]) + len(batches)]

    def __iter__(self) -> Iterator[SeededBatch]:
        return (self[number] for number in range(len(self)))


def _order_of_parts(
    groups: NDArray[np.int64], together: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """A random order of parts of sources, at most `together` pairs each (None: whole sources)."""
    by_source = np.argsort(groups, kind="stable")
    sources = groups[by_source]
    places = np.arange(len(sources)) - np.searchsorted(sources, sources)
    begins = places % together == 0 if together else places == 0
    parts = np.cumsum(begins) - 1
    return by_source[np.argsort(rng.permutation(len(parts))[parts], kind="stable")]
