"""Losses of updates over some words, against plain sums in float64."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec import EncDecTrainingConfig
from rescorer.training.loop_config import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.pairs.phrase_pairs import PairChoice
from rescorer.training.seeded_batch import SeededBatch
from rescorer.training.word_counts import WordCounts
from rescorer.tries import phrase_pairs
from rescorer.tries.phrase_pairs import PairWords, PhrasePairs, choice_of, pair_losses
from rescorer.tries.settings import PAIR_RECIPES
from tests.rescorer.tries.conftest import (
    MODEL,
    N_TARGET,
    Pools,
    losses_of,
    make_data,
    make_network,
    pair_by_pair,
    task_of,
)


def test_what_recipes_mean_for_phrase_pairs() -> None:
    """The paper's updates have 64 pairs drawn at random and all words: Cho et al. (2014), section 4.1."""
    assert PAIR_RECIPES == {"adam": (512, "parts", True), "paper": (64, "pairs", False)}


def test_held_out_loss_is_nats_per_word() -> None:
    network, data = make_network(), make_data()
    config = EncDecTrainingConfig(n_held_out=9, model=MODEL)
    task, source = task_of(network, config, data), PhrasePairs(Pools(data), config, 4)
    rows = np.setdiff1d(np.arange(101), source.train_rows(0))
    n_words = (data.weights[rows] * (data.target_lens[rows] + 1)).sum()
    with torch.no_grad():
        found, total = task.held_out_loss(), pair_by_pair(network, data, rows)
    assert len(rows) == 9
    assert found == pytest.approx(float(total) / n_words)
    assert source.held_out_words_per_pair == pytest.approx(n_words / data.weights[rows].sum())


@pytest.mark.parametrize("batching", ["sources", "parts", "pairs"])
def test_an_epoch_has_every_learned_pair_once(batching: str) -> None:
    config = EncDecTrainingConfig(n_held_out=5, batch_pairs=16, batching=batching, model=MODEL)  # type: ignore[arg-type]
    task = PhrasePairs(Pools(make_data()), config, 4)
    first, again, second = ([batch.rows for batch in task.batches(epoch)] for epoch in (0, 0, 1))
    assert sorted(np.concatenate(first)) == task.train_rows(0).tolist()
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))
    assert {len(rows) for rows in first} == {16}
    assert len({batch.seed for epoch in (0, 1) for batch in task.batches(epoch)}) == 2 * len(first)


def homes(data: EncodedPairs, batching: Any) -> tuple[int, int]:
    """In how many batches sources are, summed up, and how many batches there are."""
    config = EncDecTrainingConfig(n_held_out=0, batch_pairs=20, batching=batching, model=MODEL)
    batches = PhrasePairs(Pools(data), config, 4).batches(0)
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
    task = task_of(network, config, data)
    with torch.no_grad():
        whole = task.held_out_loss()
        monkeypatch.setattr(phrase_pairs, "HELD_OUT_BATCH_PAIRS", 2)
        assert task.held_out_loss() == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("batching", ["sources", "parts", "pairs"])
def test_fewer_pairs_than_an_update_has_are_one_batch(batching: Any) -> None:
    config = EncDecTrainingConfig(n_held_out=0, batch_pairs=102, batching=batching, model=MODEL)
    (batch,) = PhrasePairs(Pools(make_data()), config, 4).batches(0)
    assert sorted(batch.rows.tolist()) == [*range(101)]


def test_batches_of_sources_come_in_random_order_and_so_do_their_sources() -> None:
    """Pairs whose sources are numbered as they stand would else be seen as the table has them."""
    data = make_data()
    config = EncDecTrainingConfig(n_held_out=0, batch_pairs=20, batching="sources", model=MODEL)
    task = PhrasePairs(Pools(data), config, 4)
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
    task = task_of(network, config, data)
    rows = np.array([3, 50, 7])
    loss, n_words = task.loss(SeededBatch(rows, (1,)))
    assert loss.item() == pytest.approx(pair_by_pair(network, data, rows).item(), rel=1e-5)
    expected = sum(data.weights[row] * (data.target_lens[row] + 1) for row in rows)
    assert n_words == pytest.approx(expected)


def test_the_settings_say_which_rows_are_learned_from() -> None:
    config = EncDecTrainingConfig(
        max_phrase_words=3, weighting="sqrt-count", min_prob=0.25, reading="reversed-sides"
    )
    assert choice_of(config) == PairChoice(3, 0.25, with_counts=True, reverse_sides=True)


def test_without_held_out_pairs_there_is_no_such_loss() -> None:
    config = EncDecTrainingConfig(n_held_out=0)
    task = task_of(make_network(), config, make_data())
    assert (task.n_held_out, task.held_out_loss()) == (0, None)
    assert PhrasePairs(Pools(make_data()), config, 4).held_out_words_per_pair is None


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


ROWS = np.array([3, 50, 7, 88, 51])
BATCH = SeededBatch(ROWS, (4, 0, 2))
SAMPLING = EncDecTrainingConfig(batch_pairs=5, n_sampled=3, model=MODEL)


def test_shares_are_those_of_the_targets_with_their_ends() -> None:
    """Of "x x y", "x", "z" and "": five words and four ends; z is not in the shortlist."""
    counts = WordCounts.of(Counter({b"x": 3, b"z": 1, b"y": 1}))
    words = PairWords.of(Shortlists(None, Vocabulary([b"y", b"x"])), counts, 4)
    np.testing.assert_allclose(words.target_shares, [4 / 9, 1 / 9, 1 / 9, 3 / 9])
    assert words.words_per_pair == 9 / 4


def test_an_update_takes_the_softmax_over_its_words_and_a_sample() -> None:
    """The logit of a word is lowered by the log of its chance to take part; the others are left out.

    The chance is 1 - (1 - share)^15 (1 - 3 / 13): five pairs of three words, three of thirteen words drawn.
    """
    network, data = make_network(), make_data()
    shares = np.arange(1.0, N_TARGET + 1) / np.arange(1, N_TARGET + 1).sum()
    words = PairWords(Shortlists(None, Vocabulary([])), shares, 3.0)
    lens = data.target_lens[ROWS]
    own = {int(word) for row, n in zip(ROWS, lens, strict=True) for word in data.targets[row][:n]}
    drawn = np.random.default_rng(BATCH.seed).choice(N_TARGET, 3, replace=False)
    takes_part = np.isin(np.arange(N_TARGET), [*own, 0, *drawn])
    lowered = np.where(takes_part, -np.log(1 - (1 - shares) ** 15 * (1 - 3 / N_TARGET)), -np.inf)
    with torch.no_grad():
        found = pair_losses(network, SAMPLING, words).of_update(data, BATCH)
        network.output.bias += torch.from_numpy(lowered)
        expected = pair_by_pair(network, data, ROWS)
    assert not takes_part.all()
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_losses_of_parts_sum_up_to_that_of_the_batch() -> None:
    losses, data = losses_of(make_network(), SAMPLING), make_data()
    with torch.no_grad():
        whole = losses.of_update(data, BATCH)
        parts = [losses.of_update(data, part) for part in BATCH.parts(3)]
    assert len(parts) == 3
    assert sum(part.item() for part in parts) == pytest.approx(whole.item(), rel=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        EncDecTrainingConfig(n_sampled=0, model=MODEL),
        EncDecTrainingConfig(n_sampled=3, loop=LoopConfig(recipe="paper"), model=MODEL),
    ],
)
def test_without_a_sample_all_words_take_part(config: EncDecTrainingConfig) -> None:
    network, data = make_network(), make_data()
    with torch.no_grad():
        found = losses_of(network, config).of_update(data, BATCH)
        assert found.item() == pytest.approx(pair_by_pair(network, data, ROWS).item(), rel=1e-5)


def test_held_out_losses_are_exact() -> None:
    network, data = make_network(), make_data()
    with torch.no_grad():
        found = losses_of(network, SAMPLING).of_held_out(data, ROWS)
        assert found.item() == pytest.approx(pair_by_pair(network, data, ROWS).item(), rel=1e-5)
