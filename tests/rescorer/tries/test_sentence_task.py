from __future__ import annotations

import numpy as np
import pytest

from rescorer.contract import Shortlists
from rescorer.training.loop import LoopConfig
from rescorer.tries.sentence_task import (
    SentenceTask,
    SentenceTrainingConfig,
    cut,
    encode_sentences,
)
from rescorer.vocabulary import Vocabulary

WORDS = Vocabulary([b"a", b"b", b"c"])


class Network:
    """As much of a network as batches need."""

    class output:
        out_features = len(WORDS)


def task(config: SentenceTrainingConfig, n_pairs: int = 400) -> SentenceTask:
    rng = np.random.default_rng(1)
    sides = [
        [b" ".join([b"a"] * n) for n in rng.integers(1, 30, n_pairs).tolist()] for _ in range(2)
    ]
    pairs = encode_sentences(*sides, Shortlists(WORDS, WORDS), 80, "text")
    return SentenceTask(Network, pairs, config, seed=1)


@pytest.mark.parametrize("recipe", ["adam", "paper"])
def test_each_pair_is_in_one_batch(recipe: str) -> None:
    config = SentenceTrainingConfig(n_held_out=50, batch_size=60, loop=LoopConfig(recipe=recipe))
    made = task(config)
    for epoch in (0, 1):
        rows = np.concatenate([batch.rows for batch in made.batches(epoch)])
        assert sorted(rows) == sorted(made.train_rows)
    assert made.n_held_out == 40
    assert not set(made.train_rows) & set(made.held_out_rows)


def test_sentences_of_a_batch_are_about_as_long() -> None:
    made = task(SentenceTrainingConfig(n_held_out=0, batch_size=60))
    spreads = [np.ptp(made.data.target_lens[batch.rows]) for batch in made.batches(0)]
    assert np.mean(spreads) < 3
    sizes = [(made.data.target_lens[batch.rows] + 1).sum() for batch in made.batches(0)]
    assert 50 < np.mean(sizes) < 70


def test_batches_are_drawn_anew_each_epoch_and_the_same_for_the_same_number() -> None:
    made = task(SentenceTrainingConfig(batch_size=60))
    one, again, other = (made.batches(epoch) for epoch in (3, 3, 4))
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(one, again, strict=True))
    assert not np.array_equal(one[0].rows, other[0].rows)
    assert len({batch.seed for batch in (*one, *other)}) == len(one) + len(other)


def test_rows_are_cut_by_their_sizes() -> None:
    sizes = np.array([3, 9, 3, 3, 3, 20, 1])
    parts = list(cut(np.array([0, 2, 3, 4, 5, 6]), sizes, 6))
    assert [part.tolist() for part in parts] == [[0, 2], [3, 4], [5], [6]]
    assert list(cut(np.empty(0, np.int64), sizes, 6)) == []
