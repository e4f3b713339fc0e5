"""Batches of sentences about as long, and their losses against those of the sentences one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec import EncoderDecoder
from rescorer.training.loop_config import LoopConfig
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries import sentences as module
from rescorer.tries import task as task_module
from rescorer.tries.sentences import (
    SentencePairs,
    cut,
    encode_sentences,
    prepare_sentences,
    sentence_task,
)
from rescorer.tries.settings import SentenceTrainingConfig
from rescorer.tries.task import TrieTask
from tests.rescorer.tries.conftest import MODEL, N_SOURCE, N_TARGET, make_network, pair_by_pair

WORDS = Vocabulary([b"a", b"b", b"c"])


def source(config: SentenceTrainingConfig, n_pairs: int = 400) -> SentencePairs:
    rng = np.random.default_rng(1)
    sides = [
        [b" ".join([b"a"] * n) for n in rng.integers(1, 30, n_pairs).tolist()] for _ in range(2)
    ]
    pairs = encode_sentences(*sides, Shortlists(WORDS, WORDS), 80, "text")
    return SentencePairs(pairs, config, seed=1)


@pytest.mark.parametrize("recipe", ["adam", "paper"])
def test_each_pair_is_in_one_batch(recipe: str) -> None:
    config = SentenceTrainingConfig(n_held_out=50, batch_size=60, loop=LoopConfig(recipe=recipe))
    made = source(config)
    for epoch in (0, 1):
        rows = np.concatenate([batch.rows for batch in made.batches(epoch)])
        assert sorted(rows) == sorted(made.train_rows)
    assert made.n_held_out == 40
    assert not set(made.train_rows) & set(made.held_out_rows)


def test_sentences_of_a_batch_are_about_as_long() -> None:
    made = source(SentenceTrainingConfig(n_held_out=0, batch_size=60))
    spreads = [np.ptp(made.data.target_lens[batch.rows]) for batch in made.batches(0)]
    assert np.mean(spreads) < 3
    sizes = [(made.data.target_lens[batch.rows] + 1).sum() for batch in made.batches(0)]
    assert 50 < np.mean(sizes) < 70


def test_batches_are_drawn_anew_each_epoch_and_the_same_for_the_same_number() -> None:
    made = source(SentenceTrainingConfig(batch_size=60))
    one, again, other = (made.batches(epoch) for epoch in (3, 3, 4))
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(one, again, strict=True))
    assert not np.array_equal(one[0].rows, other[0].rows)
    assert len({batch.seed for batch in (*one, *other)}) == len(one) + len(other)


def test_rows_are_cut_by_their_sizes() -> None:
    sizes = np.array([3, 9, 3, 3, 3, 20, 1])
    parts = list(cut(np.array([0, 2, 3, 4, 5, 6]), sizes, 6))
    assert [part.tolist() for part in parts] == [[0, 2], [3, 4], [5], [6]]
    assert list(cut(np.empty(0, np.int64), sizes, 6)) == []


def test_what_an_update_has_where_nothing_is_asked_for() -> None:
    """2,048 words, or the 80 pairs of Bahdanau et al. (2015), appendix B.2."""
    for recipe, unit, size, samples in (
        ("adam", "words", 2048, True),
        ("paper", "pairs", 80, False),
    ):
        config = SentenceTrainingConfig(loop=LoopConfig(recipe=recipe))
        assert config.recipe == (unit, size, samples)
        assert source(config).batch_size == size


def test_batches_come_from_twenty_at_a_time_that_are_ordered_by_length() -> None:
    """Of 400 pairs 100 are drawn, ordered by target and source length, and cut into twenty fives."""
    loop = LoopConfig(recipe="paper")
    made = source(SentenceTrainingConfig(n_held_out=0, batch_size=5, loop=loop))
    drawn = np.random.default_rng((1, 2)).permutation(400).reshape(4, 100)
    expected = set()
    for rows in drawn.tolist():
        rows.sort(key=lambda row: (made.data.target_lens[row], made.data.source_lens[row]))
        expected |= {tuple(rows[first : first + 5]) for first in range(0, 100, 5)}
    assert {tuple(batch.rows.tolist()) for batch in made.batches(2)} == expected


def sentences(n_words: int, longest: int, seed: int) -> list[bytes]:
    rng = np.random.default_rng(seed)
    lens = rng.integers(1, longest + 1, 60)
    return [b" ".join(b"%d" % word for word in rng.integers(0, n_words, n)) for n in lens]


class Made(NamedTuple):
    """A task and its parts."""

    network: EncoderDecoder
    task: TrieTask
    source: SentencePairs

    def pair_by_pair(self, rows: np.ndarray) -> float:
        return pair_by_pair(self.network, self.source.data, rows).item()


def task_of_network(config: SentenceTrainingConfig) -> Made:
    sides = sentences(N_SOURCE - 2, 5, 1), sentences(N_TARGET - 2, 4, 2)
    shortlists = [Vocabulary([b"%d" % word for word in range(n - 2)]) for n in (N_SOURCE, N_TARGET)]
    pairs = encode_sentences(*sides, Shortlists(*shortlists), 5, "text")
    network = make_network()
    task = sentence_task(network, pairs, config, seed=1)
    assert isinstance(task.source, SentencePairs)
    return Made(network, task, task.source)


ROWS = np.array([3, 41, 7, 58])


def test_the_loss_of_a_batch_is_that_of_its_pairs() -> None:
    made = task_of_network(SentenceTrainingConfig(n_sampled=0))
    with torch.no_grad():
        loss, n_words = made.task.loss(SeededBatch(ROWS, (1,)))
        assert loss.item() == pytest.approx(made.pair_by_pair(ROWS), rel=1e-5)
    targets = sentences(N_TARGET - 2, 4, 2)
    assert n_words == sum(len(targets[row].split()) + 1 for row in ROWS)


@pytest.mark.parametrize("at_once", [7, 10_000])
def test_a_sampled_loss_is_over_the_words_that_take_part(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A logit is lowered by the log of 1 - (1 - share)^words (1 - sampled / all); shares count </s>."""
    monkeypatch.setattr(task_module, "SENTENCES_AT_ONCE", at_once)
    config = SentenceTrainingConfig(n_held_out=5, n_sampled=3, batch_size=6)
    made = task_of_network(config)
    targets = sentences(N_TARGET - 2, 4, 2)
    learned = b" ".join(targets[row] + b" </s>" for row in made.source.train_rows).split()
    words = [b"</s>", b"<unk>", *(b"%d" % word for word in range(N_TARGET - 2))]
    shares = np.array([learned.count(word) for word in words]) / len(learned)
    # Words that stand in no target take part as often as they are drawn.
    lowered = -np.log(1 - (1 - shares) ** 6 * (1 - 3 / N_TARGET))
    own = {words.index(word) for row in ROWS for word in targets[row].split()} | {0}
    rng = np.random.default_rng((1,))
    rng.integers(2**62)  # the seed of the dropout comes first
    drawn = rng.choice(N_TARGET, 3, replace=False)
    left_out = sorted({*range(N_TARGET)} - own - {*drawn.tolist()})
    lowered[left_out] = -np.inf
    with torch.no_grad():
        found = made.task.loss(SeededBatch(ROWS, (1,)))[0]
        made.network.output.bias += torch.from_numpy(lowered)
        expected = made.pair_by_pair(ROWS)
    assert left_out and found.item() == pytest.approx(expected, rel=1e-5)


def test_the_paper_takes_all_words() -> None:
    config = SentenceTrainingConfig(n_sampled=3, loop=LoopConfig(recipe="paper"))
    made = task_of_network(config)
    with torch.no_grad():
        found = made.task.loss(SeededBatch(ROWS, (1,)))[0]
        assert found.item() == pytest.approx(made.pair_by_pair(ROWS), rel=1e-5)


@pytest.mark.parametrize("words_at_once", [9, 4096])
def test_the_held_out_loss_is_nats_per_word(
    words_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD_OUT_PAIR_WORDS", words_at_once)
    made = task_of_network(SentenceTrainingConfig(n_held_out=6, n_sampled=3))
    rows = made.source.held_out_rows
    with torch.no_grad():
        total = made.pair_by_pair(rows)
        n_words = int((made.source.data.target_lens[rows] + 1).sum())
        assert made.task.n_held_out == 6
        assert made.task.held_out_loss() == pytest.approx(total / n_words, rel=1e-5)


def test_nothing_held_out_has_no_loss() -> None:
    made = task_of_network(SentenceTrainingConfig(n_held_out=0))
    assert made.task.held_out_loss() is None


def test_parts_of_a_batch_draw_other_dropout_and_sum_up() -> None:
    task = task_of_network(SentenceTrainingConfig(n_sampled=3)).task
    batch = SeededBatch(ROWS, (4, 0, 2))
    seeds, losses = [], []
    for part in (batch, *task.parts(batch, 2), batch, SeededBatch(ROWS, (4, 0, 3))):
        with torch.no_grad():
            losses.append(task.loss(part)[0].item())
        seeds.append(torch.initial_seed())
    whole, first, second, again, other = seeds
    assert (first, second, again) == (whole, whole + 1, whole) and other != whole
    assert losses[1] + losses[2] == pytest.approx(losses[0], rel=1e-5)
    # Not among few numbers: 62 bits of the batch's own seed.
    assert whole == int(np.random.default_rng((4, 0, 2)).integers(2**62))


def prepared(folder: Path, config: SentenceTrainingConfig) -> Prepared:
    """Of three pairs, the second of which has no source."""
    (folder / "target").write_bytes(b"x y z\nw\ny x\n")
    (folder / "source").write_bytes(b"a b\n\nb c d e\n")

    def new_network(_: SentenceTrainingConfig, shortlists: Shortlists) -> EncoderDecoder:
        assert shortlists.source is not None
        return EncoderDecoder(MODEL, *map(len, shortlists))

    return prepare_sentences(Data(folder / "target", folder / "source"), config, 1, new_network)


@pytest.mark.parametrize(
    ("settings", "sources", "targets"),
    [
        ({}, ["a b", "b c d e"], ["x y z", "y x"]),
        ({"reading": "right-to-left"}, ["a b", "b c d e"], ["z y x", "x y"]),
        ({"reading": "reversed-sides"}, ["x y z", "y x"], ["a b", "b c d e"]),
        ({"reading": "reversed-sides-right-to-left"}, ["x y z", "y x"], ["b a", "e d c b"]),
        ({"max_sentence_words": 3}, ["a b"], ["x y z"]),
        ({"max_sentence_words": 4}, ["a b", "b c d e"], ["x y z", "y x"]),
    ],
)
def test_the_sentences_that_are_learned_from(
    settings: dict[str, str | int], sources: Sequence[str], targets: Sequence[str], tmp_path: Path
) -> None:
    made = prepared(tmp_path, SentenceTrainingConfig(**settings))  # type: ignore[arg-type]
    assert isinstance(made.task, TrieTask) and isinstance(made.task.source, SentencePairs)
    data = made.task.source.data

    def text(words: Vocabulary | None, ids: np.ndarray, lens: np.ndarray) -> list[str]:
        assert words is not None
        rows = zip(ids, lens, strict=True)
        return [b" ".join(words.words[i] for i in row[:n]).decode() for row, n in rows]

    source, target = made.shortlists
    assert text(source, data.sources, data.source_lens) == sources
    assert text(target, data.targets, data.target_lens) == targets
    assert data.groups.tolist() == [*range(len(sources))]
    assert data.weights.tolist() == [1.0] * len(sources)
    other_targets = prepared(tmp_path, SentenceTrainingConfig(shortlist=2))
    assert tuple(map(len, other_targets.shortlists)) == (4, 4)
    assert other_targets.digest == made.digest


def test_only_longer_sentences_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected pairs of at most 2 words a side"):
        prepared(tmp_path, SentenceTrainingConfig(max_sentence_words=2))
