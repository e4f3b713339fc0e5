"""Training on phrase pairs of which one pool is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from moses_bridge.base.progress import print_note
from moses_bridge.base.textio import read_lines
from rescorer.contract.data import Data, reverses_sides
from rescorer.contract.training import Prepared
from rescorer.contract.vocabulary import Shortlists, count_words
from rescorer.training.held_out import digest
from rescorer.training.pairs.pair_pools import PairPools, open_pairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.training.shortlists import ChosenShortlists, choose_shortlists
from rescorer.training.word_counts import WordCounts
from rescorer.tries.pair_losses import PairWords, RecurrentLosses, RecurrentTrainingConfig
from rescorer.tries.pair_task import PairLosses, PairTask, PairTrainingConfig


def prepare_recurrent(
    data: Data,
    config: RecurrentTrainingConfig,
    seed: int,
    new_network: Callable[[Shortlists], nn.Module],
) -> Prepared:
    """As `prepare_pairs`, for a `Recurrent` network."""

    def new_model(words: PairWords) -> PairModel:
        network = new_network(words.shortlists)
        return PairModel(network, RecurrentLosses(network, config, words))

    return prepare_pairs(data, config, seed, new_model)


class PairModel(NamedTuple):
    """What is trained on phrase pairs.

    Attributes:
        network: is changed.
        losses: its losses.
    """

    network: nn.Module
    losses: PairLosses


def prepare_pairs(
    data: Data,
    config: PairTrainingConfig,
    seed: int,
    new_model: Callable[[PairWords], PairModel],
    whole_batches: bool = False,
) -> Prepared:
    """Read the pairs of a phrase table and make a network for their words.

    Args:
        data: a phrase table; its distinct pairs are the data. Shortlists come from its `texts`, unless given.
        config: settings.
        seed: of held-out pairs, order and samples.
        new_model: makes the network for these words.
        whole_batches: whether the loss of a batch is more than the sum over its pairs.

    Raises:
        InputError: the table is malformed or has no usable pair, or `cache` is no cache.
        ConfigError: `cache` has other pairs.
    """
    pairs = open_pairs(
        data.path, config.choice, config.pool_pairs, config.max_pairs, seed, data.cache
    )
    of_pairs = pairs.word_counts()
    shortlists = data.shortlists
    record: dict[str, Any] = {}
    if shortlists is None:
        chosen = _chosen_shortlists(data, config, of_pairs)
        print_note(str(chosen))
        shortlists, record = chosen.shortlists, {"shortlists": chosen.record()}
    network, losses = new_model(PairWords.of(shortlists, of_pairs[1], sum(pairs.sizes)))
    pools = pairs.pools(shortlists, config.weighting)
    task = PooledPairTask(pools, config, seed, losses, whole_batches)
    record |= {
        "n_pairs": sum(pairs.sizes),
        "held_out_words_per_pair": task.held_out_words_per_pair,
    }
    words = (word for side in shortlists if data.texts and side for word in side.words)
    return Prepared(network, task, shortlists, digest(chain(pairs.content(), words)), record)


def _chosen_shortlists(
    data: Data, config: PairTrainingConfig, of_pairs: Sequence[WordCounts]
) -> ChosenShortlists:
    """The most frequent words of the texts, or of the pairs where there are none."""
    counts = of_pairs
    if data.texts is not None:
        texts = data.texts[::-1] if reverses_sides(config.reading) else data.texts
        counts = [WordCounts.of(count_words(read_lines(text))) for text in texts]
    return choose_shortlists(counts, config.shortlist, config.shortlist_coverage)


class PoolBatch(NamedTuple):
    """The pairs of an update.

    Attributes:
        pool: their pool.
        batch: which of it.
    """

    pool: int
    batch: SeededBatch


class PooledPairTask:
    """The batches and losses of phrase pairs in pools.

    An epoch goes through the pools in random order, and through each as a `PairTask` does; with one pool
    it is the same as that. Held-out pairs are some of the first pool, a sample of all sources.

    Args:
        pools: all pairs.
        config: settings.
        seed: of the held-out pairs, of the order and of what an update draws.
        losses: of some pairs.
        whole_batches: whether the loss of a batch is more than the sum over its pairs; then it is not cut.
    """

    def __init__(
        self,
        pools: PairPools,
        config: PairTrainingConfig,
        seed: int,
        losses: PairLosses,
        whole_batches: bool,
    ) -> None:
        self.config = config
        self.seed = seed
        self._pools = pools
        self._losses = losses
        self._whole_batches = whole_batches
        self._pool, self._task = 0, PairTask(pools.load(0), config, seed, losses)
        self._held_out = self._task.held_out()
        self.sizes = [len(self._task.train_rows), *pools.sizes[1:]]

    @property
    def n_held_out(self) -> int:
        """Number of held-out pairs."""
        return self._held_out.n_held_out

    @property
    def held_out_words_per_pair(self) -> float | None:
        """Words with </s>, weighted as in training; None if there are no held-out pairs."""
        return self._held_out.held_out_words_per_pair

    def held_out_loss(self) -> float | None:
        """Nats per word of the held-out pairs, weighted as in training; None if there are none."""
        return self._held_out.held_out_loss()

    def batches(self, epoch: int) -> PoolBatches:
        """The pairs of each update of an epoch."""
        return PoolBatches(self, epoch)

    @property
    def batch_size(self) -> int:
        """Pairs of an update."""
        return self.config.pairs_per_update

    def parts(self, batch: PoolBatch, n_parts: int) -> list[PoolBatch]:
        """A batch in at most n_parts parts; neighbours share sources."""
        if self._whole_batches:
            return [batch]
        return [PoolBatch(batch.pool, part) for part in batch.batch.parts(n_parts)]

    def n_words(self, batch: PoolBatch) -> float:
        """The weight of the words of a batch, </s> included."""
        return self.pool(batch.pool).n_words(batch.batch.rows)

    def loss(self, batch: PoolBatch) -> tuple[Tensor, float]:
        """Summed weighted loss of the pairs of a batch, and the weight of their words."""
        return self.pool(batch.pool).loss(batch.batch)

    def pool(self, number: int) -> PairTask:
        """The task of one pool; the one before leaves the memory."""
        if number != self._pool:
            del self._task
            config = self.config if number == 0 else replace(self.config, n_held_out=0)
            data = self._pools.load(number)
            self._pool = number
            self._task = PairTask(data, config, self.seed, self._losses)
        return self._task


class PoolBatches:
    """The batches of an epoch; those of a pool are drawn when the first of them is needed.

    Args:
        task: has the pools.
        epoch: its number.
    """

    def __init__(self, task: PooledPairTask, epoch: int) -> None:
        self._task = task
        self._epoch = epoch
        n_pools = len(task.sizes)
        self._order = np.random.default_rng((task.seed, epoch, n_pools)).permutation(n_pools)
        sizes = np.array([max(1, size // task.config.pairs_per_update) for size in task.sizes])
        self._ends = np.cumsum(sizes[self._order])
        self._drawn: tuple[int | None, list[SeededBatch]] = None, []

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, number: int, /) -> PoolBatch:
        if not 0 <= number < len(self):
            raise IndexError(number)
        place = int(np.searchsorted(self._ends, number, side="right"))
        pool = int(self._order[place])
        if pool != self._drawn[0]:
            self._drawn = pool, self._task.pool(pool).batches(self._epoch)
        batches = self._drawn[1]
        return PoolBatch(pool, batches[number - int(self._ends[place]) + len(batches)])

    def __iter__(self) -> Iterator[PoolBatch]:
        return (self[number] for number in range(len(self)))
