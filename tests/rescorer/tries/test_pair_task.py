from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError
from rescorer.scorers.encdec.task import EncDecTrainingConfig
from rescorer.training.loop import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.pairs.phrase_pairs import PairChoice
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries import pair_task
from rescorer.tries.pair_task import PAIR_RECIPES, PairTask
from tests.rescorer.tries.conftest import (
    MODEL,
    N_TARGET,
    losses_of,
    make_data,
    make_network,
    pair_by_pair,
)


def test_what_recipes_mean_for_phrase_pairs() -> None:
    """The paper's updates have 64 pairs drawn at random and all words: Cho et al. (2014), section 4.1."""
    assert PAIR_RECIPES == {"adam": (512, "parts", True), "paper": (64, "pairs", False)}


def test_held_out_loss_is_nats_per_word() -> None:
    network, data = make_network(), make_data()
    config = EncDecTrainingConfig(n_held_out=9, model=MODEL)
    task = PairTask(data, config, 4, losses_of(network, config))
    rows = task.held_out_rows
    n_words = (data.weights[rows] * (data.target_lens[rows] + 1)).sum()
    with torch.no_grad():
        found, total = task.held_out_loss(), pair_by_pair(network, data, rows)
    assert len(rows) == 9
    assert found == pytest.approx(float(total) / n_words)
    assert task.held_out_words_per_pair == pytest.approx(n_words / data.weights[rows].sum())


@pytest.mark.parametrize("batching", ["sources", "parts", "pairs"])
def test_an_epoch_has_every_learned_pair_once(batching: str) -> None:
    config = EncDecTrainingConfig(n_held_out=5, batch_pairs=16, batching=batching, model=MODEL)  # type: ignore[arg-type]
    task = PairTask(make_data(), config, 4, losses_of(make_network(), config))
    first, again, second = ([batch.rows for batch in task.batches(epoch)] for epoch in (0, 0, 1))
    assert sorted(np.concatenate(first)) == sorted({*range(101)} - {*task.held_out_rows.tolist()})
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))
    assert {len(rows) for rows in first} == {16}
    assert len({batch.seed for epoch in (0, 1) for batch in task.batches(epoch)}) == 2 * len(first)


def homes(data: EncodedPairs, batching: Any) -> tuple[int, int]:
    """In how many batches sources are, summed up, and how many batches there are."""
    config = EncDecTrainingConfig(n_held_out=0, batch_pairs=20, batching=batching, model=MODEL)
    task = PairTask(data, config, 4, losses_of(make_network(), config))
    batches = task.batches(0)
    return sum(len(np.unique(data.groups[batch.rows])) for batch in batches), len(batches)


def test_a_batch_of_sources_holds_all_their_targets() -> None:
    n_homes, n_batches = homes(make_data(), "sources")
    assert n_homes <= 17 + n_batches - 1


def test_a_batch_of_parts_holds_up_to_four_targets_of_a_source() -> None:
    data = make_data(4, 80)
    sizes = np.bincount(data.groups)
    n_parts = int(np.ceil(sizes / 4).sum())
    n_homes, n_batches = homes(data, "parts")
    assert sizes.min() > 8 and len(sizes) + 4 <= n_homes <= n_parts + n_batches - 1
    assert homes(data, "pairs")[0] >= n_homes


def test_held_out_pairs_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    network, data = make_network(), make_data()
    config = EncDecTrainingConfig(n_held_out=9, model=MODEL)
    task = PairTask(data, config, 4, losses_of(network, config))
    with torch.no_grad():
        whole = task.held_out_loss()
        monkeypatch.setattr(pair_task, "HELD_OUT_BATCH_PAIRS", 2)
        assert task.held_out_loss() == pytest.approx(whole, rel=1e-6)


def test_the_held_out_pairs_alone_have_the_same_loss() -> None:
    network, data = make_network(), make_data()
    config = EncDecTrainingConfig(n_held_out=9, model=MODEL)
    task = PairTask(data, config, 4, losses_of(network, config))
    alone = task.held_out()
    assert (alone.n_held_out, len(alone.train_rows), len(alone.data.groups)) == (9, 0, 9)
    assert alone.held_out_words_per_pair == pytest.approx(task.held_out_words_per_pair)
    with torch.no_grad():
        assert alone.held_out_loss() == pytest.approx(task.held_out_loss())
    assert (len(task.train_rows), len(task.data.groups)) == (92, 101)


@pytest.mark.parametrize("batching", ["sources", "parts", "pairs"])
def test_fewer_pairs_than_an_update_has_are_one_batch(batching: Any) -> None:
    config = EncDecTrainingConfig(n_held_out=0, batch_pairs=102, batching=batching, model=MODEL)
    (batch,) = PairTask(make_data(), config, 4, losses_of(make_network(), config)).batches(0)
    assert sorted(batch.rows.tolist()) == [*range(101)]


def test_batches_of_sources_come_in_random_order_and_so_do_their_sources() -> None:
    """Pairs whose sources are numbered as they stand would else be seen as the table has them."""
    data = make_data()
    config = EncDecTrainingConfig(n_held_out=0, batch_pairs=20, batching="sources", model=MODEL)
    task = PairTask(data, config, 4, losses_of(make_network(), config))
    orders = []
    for epoch in (0, 1):
        groups = data.groups[np.concatenate([batch.rows for batch in task.batches(epoch)])]
        orders.append([*dict.fromkeys(groups.tolist())])
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    assert sorted(orders[0]) not in orders
    firsts = {tuple(data.groups[task.batches(epoch)[0].rows].tolist()) for epoch in range(8)}
    assert len(firsts) == 8


@pytest.mark.parametrize("n_sampled", [0, N_TARGET])
def test_the_loss_of_a_batch_and_its_words(n_sampled: int) -> None:
    network, data = make_network(), make_data()
    config = EncDecTrainingConfig(n_held_out=0, n_sampled=n_sampled, model=MODEL)
    task = PairTask(data, config, 4, losses_of(network, config))
    rows = np.array([3, 50, 7])
    loss, n_words = task.loss(SeededBatch(rows, (1,)))
    assert loss.item() == pytest.approx(pair_by_pair(network, data, rows).item(), rel=1e-5)
    expected = sum(data.weights[row] * (data.target_lens[row] + 1) for row in rows)
    assert n_words == pytest.approx(expected)


def test_the_settings_say_which_rows_are_learned_from() -> None:
    config = EncDecTrainingConfig(
        max_phrase_words=3, weighting="sqrt-count", min_prob=0.25, reading="reversed-sides"
    )
    assert config.choice == PairChoice(3, 0.25, with_counts=True, reverse_sides=True)


def test_without_held_out_pairs_there_is_no_such_loss() -> None:
    config = EncDecTrainingConfig(n_held_out=0)
    task = PairTask(make_data(), config, 4, losses_of(make_network(), config))
    assert (task.n_held_out, task.held_out_loss(), task.held_out_words_per_pair) == (0, None, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shortlist": -3}, "shortlist is -3"),
        ({"n_held_out": -1}, "n_held_out is -1"),
        ({"batch_pairs": -1}, "batch_pairs is -1"),
        ({"loop": {"learning_rate": -1.0}}, "learning_rate is -1.0"),
        ({"loop": {"evaluations_per_epoch": 0}}, "evaluations_per_epoch is 0"),
        ({"loop": {"max_minutes": -2.0}}, "max_minutes is -2.0"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_mapping(EncDecTrainingConfig, settings, "here")


@pytest.mark.parametrize(
    ("recipe", "batch_pairs", "batching", "expected"),
    [
        ("paper", 0, "auto", (64, 1)),
        ("adam", 0, "auto", (512, 4)),
        ("paper", 32, "sources", (32, None)),
        ("adam", 10, "pairs", (10, 1)),
    ],
)
def test_recipes_have_their_batches(
    recipe: Any, batch_pairs: int, batching: Any, expected: tuple[int, int | None]
) -> None:
    config = EncDecTrainingConfig(
        batch_pairs=batch_pairs, batching=batching, loop=LoopConfig(recipe=recipe)
    )
    assert (config.pairs_per_update, config.targets_together) == expected
    if recipe == "paper":
        assert config.loop.product_dtype == torch.float32
