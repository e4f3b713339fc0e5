from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.choices import PairReading
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists
from rescorer.runs.train import train
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig, EncoderDecoder
from rescorer.training.loop_config import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries.phrase_pairs import PairWords, PhrasePairs, prepare_pairs, prepare_recurrent
from rescorer.tries.task import Losses, TrieTask
from tests.rescorer.tries.conftest import Pools, losses_of, task_of

MODEL = EncDecConfig(hidden_width=7, embedding_width=5, maxout_width=3)
CONFIG = EncDecTrainingConfig(n_held_out=9, batch_pairs=16, model=MODEL)
N_SOURCE, N_TARGET = 11, 13


def make_data(n_pairs: int, seed: int) -> EncodedPairs:
    rng = np.random.default_rng(seed)

    def phrases(n: int, n_words: int, max_len: int) -> tuple[np.ndarray, np.ndarray]:
        lens = rng.integers(0, max_len + 1, n)
        ids = rng.integers(1, n_words, (n, max_len + 1)).astype(np.int32)
        ids[np.arange(max_len + 1) >= lens[:, None]] = 0
        return ids, lens

    groups = np.sort(rng.integers(0, 17, n_pairs))
    weights = rng.uniform(0.5, 3.0, n_pairs)
    sources, targets = phrases(17, N_SOURCE, 4), phrases(n_pairs, 5, 3)
    return EncodedPairs(*sources, *targets, groups, weights)


def make_network() -> EncoderDecoder:
    torch.manual_seed(3)
    network = EncoderDecoder(MODEL, N_SOURCE, N_TARGET)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network


def make_source(*pools: EncodedPairs) -> PhrasePairs:
    return PhrasePairs(Pools(*pools), CONFIG, 4)


def test_an_epoch_has_each_learned_pair_once_pool_by_pool() -> None:
    task = make_source(*(make_data(n_pairs, n_pairs) for n_pairs in (101, 60, 16, 5)))
    orders = set()
    for epoch in range(6):
        batches = [*task.batches(epoch)]
        assert len(batches) == len(task.batches(epoch)) == 92 // 16 + 60 // 16 + 1 + 1
        order = [batch.pool for batch in batches]
        assert sum(one != other for one, other in itertools.pairwise(order)) == 3
        orders.add(tuple(order))
        for pool, size in enumerate(task.sizes):
            rows = np.concatenate([batch.rows for batch in batches if batch.pool == pool])
            assert len(rows) == len({*rows.tolist()}) == size
    assert len(orders) > 2 and task.sizes == [92, 60, 16, 5]


def test_batches_are_the_same_wherever_an_epoch_begins() -> None:
    pools = make_data(80, 1), make_data(90, 2)
    task = make_source(*pools)
    whole = [*task.batches(1)]
    for number in (8, 2, 5, 0):
        batch = make_source(*pools).batches(1)[number]
        assert batch.pool == whole[number].pool
        np.testing.assert_array_equal(batch.rows, whole[number].rows)
    for number in (len(whole), -1):
        with pytest.raises(IndexError):
            task.batches(1)[number]


def test_a_pool_is_read_and_its_batches_are_drawn_once_an_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools, drawn = Pools(make_data(80, 1), make_data(90, 2), make_data(70, 3)), []
    source, draw = PhrasePairs(pools, CONFIG, 4), PhrasePairs.pool_batches

    def pool_batches(source: PhrasePairs, pool: int, epoch: int) -> list[SeededBatch]:
        drawn.append(pool)
        return draw(source, pool, epoch)

    monkeypatch.setattr(PhrasePairs, "pool_batches", pool_batches)
    assert source.pool(0) is source.pool(0) and pools.loaded == [0]
    pools.loaded.clear()
    for batch in source.batches(0):
        source.located(batch)
    assert len(pools.loaded) in (2, 3) and len({*pools.loaded}) == len(pools.loaded)
    assert sorted(drawn) == [0, 1, 2]


def test_a_loss_is_that_of_the_pairs_of_its_pool() -> None:
    first, second = make_data(80, 1), make_data(90, 2)
    batch = SeededBatch(np.array([3, 50, 7]), (1,))
    alone = task_of(make_network(), CONFIG, second).loss(batch)
    task = task_of(make_network(), CONFIG, first, second)
    with torch.no_grad():
        held_out = task.held_out_loss()
        found = task.loss(batch._replace(pool=1))
        assert (found[0].item(), found[1]) == (alone[0].item(), alone[1])
        assert task.held_out_loss() == held_out


def test_the_data_are_read_and_the_network_is_made_for_their_words(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(b"s%d ||| t u ||| 1 1 1 1\n" % n for n in range(30)))
    asked: list[Shortlists] = []

    def new_network(_: EncDecTrainingConfig, shortlists: Shortlists) -> EncoderDecoder:
        asked.append(shortlists)
        return EncoderDecoder(MODEL, *map(len, shortlists))

    config = EncDecTrainingConfig(n_held_out=2, shortlist=20)
    prepared = prepare_recurrent(Data(table), config, 1, new_network)
    (shortlists,) = asked
    assert prepared.shortlists is shortlists
    assert tuple(map(len, shortlists)) == (22, 4)
    assert prepared.record == {
        "n_pairs": 30,
        "held_out_words_per_pair": 3.0,
        "shortlists": {
            "source": {"words": 20, "covered": pytest.approx(20 / 30, abs=1e-6)},
            "target": {"words": 2, "covered": 1.0},
        },
    }
    again = prepare_recurrent(Data(table), config, 2, new_network)
    few = prepare_recurrent(Data(table), EncDecTrainingConfig(max_pairs=20), 1, new_network)
    assert again.digest == prepared.digest != few.digest
    assert sum(few.task.source.sizes) + few.task.n_held_out == 20  # type: ignore[attr-defined]


@pytest.mark.parametrize("reading", ["as-is", "reversed-sides"])
def test_texts_of_reversed_sides_change_places(tmp_path: Path, reading: PairReading) -> None:
    for name, text in (("table", b"a ||| x ||| 1\n"), ("en", b"a b\n"), ("fr", b"x\n")):
        (tmp_path / name).write_bytes(text)
    config = EncDecTrainingConfig(n_held_out=0, reading=reading)
    data = Data(tmp_path / "table", texts=(tmp_path / "en", tmp_path / "fr"))
    prepared = prepare_recurrent(data, config, 1, lambda *_: make_network())
    source, target = prepared.shortlists
    assert source is not None
    expected = [(b"a", b"b"), (b"x",)]
    assert [source.words[2:], target.words[2:]] == expected[
        :: -1 if reading == "reversed-sides" else 1
    ]


@pytest.mark.parametrize(
    ("reading", "counts"), [("as-is", [2, 0, 3, 1]), ("reversed-sides", [2, 0, 2, 1])]
)
def test_shares_are_those_of_target_words(
    tmp_path: Path, reading: PairReading, counts: list[int]
) -> None:
    """Two pairs by hand: </s>, <unk> and the two words of the target side."""
    (tmp_path / "table").write_bytes(b"a b ||| x ||| 1\na ||| x y x ||| 1\n")
    config = EncDecTrainingConfig(n_held_out=0, reading=reading)
    asked: list[PairWords] = []

    def new_losses(_: object, config: EncDecTrainingConfig, words: PairWords) -> Losses:
        asked.append(words)
        return losses_of(make_network(), config)

    prepare_pairs(Data(tmp_path / "table"), config, 1, lambda *_: make_network(), new_losses)
    (words,) = asked
    assert words.target_shares.tolist() == [count / sum(counts) for count in counts]
    assert words.words_per_pair == sum(counts) / 2


def test_other_texts_are_other_data(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"a ||| x ||| 1\na ||| y ||| 1\n")
    for name, text in (("en", b"a b\n"), ("other", b"a c\n"), ("fr", b"x\n")):
        (tmp_path / name).write_bytes(text)
    config, target = EncDecTrainingConfig(n_held_out=0), tmp_path / "fr"
    digests = [
        prepare_recurrent(Data(table, texts=texts), config, 1, lambda *_: make_network()).digest
        for texts in (None, (tmp_path / "en", target), (tmp_path / "other", target))
    ]
    assert len({*digests}) == 3


def test_a_loss_of_pairs_is_cut_into_parts(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| x ||| 1\na ||| y ||| 1\n")
    config = EncDecTrainingConfig(n_held_out=0)
    task = prepare_recurrent(Data(tmp_path / "table"), config, 1, lambda *_: make_network()).task
    assert len(task.parts(task.batches(0)[0], 2)) == 2


def test_a_loss_of_whole_batches_is_not_cut() -> None:
    source, losses = make_source(make_data(80, 1)), losses_of(make_network(), CONFIG)
    cut, whole = (TrieTask(source, losses, whole_batches) for whole_batches in (False, True))
    batch = whole.batches(0)[0]
    assert whole.parts(batch, 3) == [batch] and len(cut.parts(batch, 3)) == 3


def test_a_table_without_usable_pairs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a b ||| x ||| 1 1 1 1\n")
    config = EncDecTrainingConfig(max_phrase_words=1)
    with pytest.raises(InputError, match="no phrase pair"):
        prepare_recurrent(Data(tmp_path / "table"), config, 1, lambda *_: make_network())


@pytest.mark.parametrize("pool_pairs", [20, 40])
def test_a_training_in_pools_is_the_same_with_a_cache_and_without(
    tmp_path: Path, pool_pairs: int
) -> None:
    table = tmp_path / "table"
    rows = [b"s%d ||| t%s ||| 1 1 1 1\n" % (n % 30, b" t" * (n % 2)) for n in range(90)]
    table.write_bytes(b"".join(rows))
    loop = LoopConfig(n_epochs=2, learning_rate=0.01)
    config = replace(CONFIG, pool_pairs=pool_pairs, n_held_out=2, loop=loop)
    weights = []
    for name, cache in (("passing", None), ("kept", tmp_path / "c"), ("again", tmp_path / "c")):
        report = train("encdec", Data(table, cache=cache), tmp_path / name, config)
        assert report.held_out_loss is not None
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert len({*weights}) == 1


def test_text_has_no_cache(tmp_path: Path) -> None:
    from rescorer.scorers.cslm import CslmTrainingConfig

    with pytest.raises(ConfigError, match="leave --cache out"):
        train("cslm", Data("d", cache="c"), tmp_path / "m", CslmTrainingConfig())
