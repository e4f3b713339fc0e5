"""Losses over windows against a softmax in NumPy float64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from moses_bridge.base.errors import ConfigError
from rescorer.contract.vocabulary import Vocabulary
from rescorer.scorers.cslm import Cslm
from rescorer.training.loop_config import LoopConfig
from rescorer.training.seeded_batch import SeededBatch
from rescorer.windows import task as module
from rescorer.windows.ngrams import sentence_ngrams
from rescorer.windows.task import WindowRows, WindowTask, WindowTrainingConfig, mapped_rows
from tests.rescorer.scorers.test_cslm import SIZES, WORDS, numpy_log_prob


@pytest.fixture
def model() -> Cslm:
    torch.manual_seed(1)
    network = Cslm(SIZES, len(WORDS) + 2)
    torch.nn.init.normal_(network.output.bias)
    return network


def make_task(network: Cslm, sentences: list[bytes], config: WindowTrainingConfig) -> WindowTask:
    ids, lens = Vocabulary(WORDS).encode_text(sentences)
    rows, _ = sentence_ngrams(ids, lens, SIZES.context_words, network.start_id, 0)
    return WindowTask(network, WindowRows(rows, rows[:0]), config, seed=1)


def test_sampled_loss_over_the_whole_shortlist_is_the_exact_loss(model: Cslm) -> None:
    sentences = [b"a b", b"c d a", b"b b c"] * 4
    config = WindowTrainingConfig(
        n_held_out=0, n_sampled=len(WORDS) + 2, loop=LoopConfig(product_type="float32")
    )
    task = make_task(model, sentences, config)
    loss, n_words = task.loss(task.batches(0)[0])
    expected = -sum(
        numpy_log_prob(model, ids, 0) for ids in ([2, 3], [4, 5, 2], [3, 3, 4]) for _ in range(4)
    )
    assert n_words == 44
    assert loss.item() == pytest.approx(expected, rel=1e-5)


class Identity:
    """The hidden layer is the vector of the first word of the window."""

    def __init__(self, n_words: int, width: int) -> None:
        generator = torch.Generator().manual_seed(5)
        self.vectors = torch.randn(n_words, width, generator=generator)
        self.output = torch.nn.Linear(width, n_words)
        with torch.no_grad():
            self.output.weight[:] = 0.4 * torch.randn(n_words, width, generator=generator)
            self.output.bias[:] = 0.4 * torch.randn(n_words, generator=generator)

    def hidden(self, windows: torch.Tensor) -> torch.Tensor:
        return self.vectors[windows[:, 0]]

    def losses(self, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """-log p of each window's word, float64."""
        weight, bias = (p.detach().double().numpy() for p in self.output.parameters())
        logits = self.vectors.double().numpy()[rows[:, 0]] @ weight.T + bias
        return -np.asarray(log_softmax(logits, axis=1)[np.arange(len(rows)), rows[:, -1]])


N_WORDS = 400


def zipf_rows(n: int) -> NDArray[np.int32]:
    """Windows of two words whose predicted words are as unevenly frequent as those of a language."""
    rng = np.random.default_rng(9)
    shares = 1 / np.arange(1, N_WORDS + 1)
    words = rng.choice(N_WORDS, n, p=shares / shares.sum())
    first, second = rng.integers(0, N_WORDS, n), rng.integers(0, N_WORDS, n)
    return np.stack([first, second, words], axis=1).astype(np.int32)


def identity_task(n_sampled: int, **settings: Any) -> tuple[Identity, WindowTask]:
    network, rows = Identity(N_WORDS, 4), zipf_rows(4000)
    config = WindowTrainingConfig(n_sampled=n_sampled, batch_words=100, **settings)
    return network, WindowTask(network, WindowRows(rows, rows[:0]), config, seed=1)


def counted_shares(task: WindowTask, n_sampled: int) -> NDArray[np.float64]:
    """How often each word is among the candidates of a random batch."""
    rng, n_draws, counts = np.random.default_rng(3), 3000, np.zeros(N_WORDS)
    for _ in range(n_draws):
        words = task.train_rows[rng.choice(len(task.train_rows), 100), -1]
        sample = rng.choice(N_WORDS, n_sampled, replace=False)
        counts[np.union1d(words, sample)] += 1
    return counts / n_draws


def random_batches(task: WindowTask, n: int) -> Iterator[SeededBatch]:
    rng = np.random.default_rng(2)
    for draw in range(n):
        yield SeededBatch(rng.permutation(len(task.train_rows))[:100], (1, 0, draw))


@pytest.mark.parametrize("n_sampled", [100, 200])
def test_the_sampled_loss_is_the_full_one_on_average(n_sampled: int) -> None:
    """Over many draws, but for the correction of the words that are predicted themselves."""
    network, task = identity_task(n_sampled)
    log_shares = np.log(counted_shares(task, n_sampled))
    sampled = expected = 0.0
    for batch in random_batches(task, 200):
        rows = task.train_rows[batch.rows]
        with torch.no_grad():
            sampled += float(task.loss(batch)[0])
        expected += network.losses(rows).sum() + log_shares[rows[:, -1]].sum()
    assert sampled == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("n_sampled", [100, 200])
def test_sampled_gradients_are_the_full_ones_on_average(n_sampled: int) -> None:
    """By the bias: probability mass of each word, minus how often it is predicted."""
    network, task = identity_task(n_sampled)
    found, expected = np.zeros(N_WORDS), np.zeros(N_WORDS)
    weight, bias = (p.detach().double().numpy() for p in network.output.parameters())
    for batch in random_batches(task, 300):
        rows = task.train_rows[batch.rows]
        (gradient,) = torch.autograd.grad(task.loss(batch)[0], [network.output.bias])
        counts = np.bincount(rows[:, -1], minlength=N_WORDS)
        found += gradient.numpy() + counts
        logits = network.vectors.double().numpy()[rows[:, 0]] @ weight.T + bias
        expected += softmax(logits, axis=1).sum(axis=0)
    frequent, rare = slice(0, 20), slice(200, None)
    for words in (frequent, rare):
        assert found[words].sum() == pytest.approx(expected[words].sum(), rel=0.05)


def test_the_correction_is_the_log_of_the_chance_to_take_part() -> None:
    _, task = identity_task(50)
    shares = counted_shares(task, 50)
    np.testing.assert_allclose(np.exp(task._sampler.log_inclusion), shares, atol=0.04)


def test_the_chance_to_take_part_is_by_the_shares_of_all_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not to be among 100 running words, nor in a sample of 40 of 400; words are counted block by block."""
    monkeypatch.setattr(module, "COUNTED_AT_ONCE", 300)
    _, task = identity_task(40)
    counts = Counter(zipf_rows(4000)[:, -1].tolist())
    absent = [(1 - counts[word] / 4000) ** 100 * 0.9 for word in range(N_WORDS)]
    np.testing.assert_allclose(task._sampler.log_inclusion, np.log(1 - np.array(absent)))


def test_the_full_loss_and_the_held_out_loss() -> None:
    network, rows = Identity(N_WORDS, 4), zipf_rows(300)
    held_out = np.arange(300) % 10 == 3
    config = WindowTrainingConfig(n_sampled=0, batch_words=50)
    task = WindowTask(network, WindowRows(rows[~held_out], rows[held_out]), config, seed=1)
    numbers = np.array([5, 0, 100])
    with torch.no_grad():
        loss, n_words = task.loss(SeededBatch(numbers, (1,)))
    assert n_words == 3
    expected = network.losses(rows[~held_out][numbers]).sum()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert task.n_held_out == 30
    with torch.no_grad():
        found = task.held_out_loss()
    assert found == pytest.approx(network.losses(rows[held_out]).mean(), rel=1e-5)


def test_held_out_windows_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = Identity(N_WORDS, 4), zipf_rows(50)
    task = WindowTask(network, WindowRows(rows[:0], rows), WindowTrainingConfig(), seed=1)
    monkeypatch.setattr(module, "HELD_OUT_BATCH", 7)
    with torch.no_grad():
        found = task.held_out_loss()
    assert found == pytest.approx(network.losses(rows).mean(), rel=1e-5)


def test_nothing_held_out_has_no_loss() -> None:
    _, task = identity_task(0)
    assert (task.n_held_out, task.held_out_loss()) == (0, None)


def test_an_epoch_has_every_window_once_in_an_order_of_its_own() -> None:
    _, task = identity_task(50)
    first, again, second = task.batches(0), task.batches(0), task.batches(1)
    order = np.concatenate([batch.rows for batch in first])
    assert sorted(order) == [*range(4000)] and {len(batch.rows) for batch in first} == {100}
    assert order.tolist() == np.concatenate([batch.rows for batch in again]).tolist()
    assert order.tolist() != np.concatenate([batch.rows for batch in second]).tolist()
    assert len({batch.seed for batch in [*first, *second]}) == 80


@pytest.mark.parametrize("settings", [{}, {"dropout": 0.5}])
def test_a_batch_alone_says_what_is_drawn_in_it(settings: dict[str, float]) -> None:
    """A training that is resumed in the middle of an epoch draws the same."""
    _, task = identity_task(50, **settings)
    batches = task.batches(0)
    with torch.no_grad():
        in_order = [task.loss(batch)[0].item() for batch in batches[:5]]
        assert task.loss(batches[4])[0].item() == in_order[4]
        other = SeededBatch(batches[4].rows, (9, 9, 9))
        assert task.loss(other)[0].item() != in_order[4]


def test_the_smallest_settings_are_allowed() -> None:
    WindowTrainingConfig(shortlist=1, n_held_out=0, batch_words=1, n_sampled=0, dropout=0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shortlist": 0}, "shortlist is 0"),
        ({"n_held_out": -1}, "n_held_out is -1"),
        ({"batch_words": 0}, "batch_words is 0"),
        ({"n_sampled": -1}, "n_sampled is -1"),
        ({"dropout": -0.1}, "dropout is -0.1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WindowTrainingConfig(**settings)


def test_hidden_layers_are_trained_in_the_products_type(model: Cslm) -> None:
    """bfloat16 has 8 bits of mantissa: loss and gradients are those of float32 to about a hundredth."""
    losses, slopes = {}, {}
    for product_type in ("float32", "bfloat16"):
        config = WindowTrainingConfig(n_sampled=0, loop=LoopConfig(product_type=product_type))
        task = make_task(model, [b"a b", b"c d a", b"b b c"] * 4, config)
        model.zero_grad()
        loss, _ = task.loss(task.batches(0)[0])
        loss.backward()
        losses[product_type] = loss.item()
        slopes[product_type] = model.first.weight.grad.clone()
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.01)
    difference = (slopes["bfloat16"] - slopes["float32"]).norm() / slopes["float32"].norm()
    assert 1e-5 < difference < 0.05


def exact_logits(network: Cslm, rows: NDArray[np.int32]) -> NDArray[np.float64]:
    with torch.no_grad():
        hidden = network.hidden(torch.from_numpy(rows[:, :-1].astype(np.int64)))
        return np.asarray(network.output(hidden).double().numpy())


def test_the_end_of_a_training_measures_log_z(model: Cslm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_OUT_BATCH", 3)
    task = make_task(model, [b"a b", b"c d a", b"b b c"], WindowTrainingConfig(n_sampled=0))
    assert task.finish() is None
    task.held_out_rows = task.train_rows[:7]
    before = exact_logits(model, task.held_out_rows)
    found = task.finish()
    after = exact_logits(model, task.held_out_rows)
    log_z = np.log(np.exp(after).sum(axis=1))
    assert found == pytest.approx((log_z.mean(), log_z.std()), abs=1e-5)
    np.testing.assert_allclose(log_softmax(after, axis=1), log_softmax(before, axis=1), atol=1e-5)


def test_parts_are_put_together() -> None:
    random_numbers = np.random.default_rng(3)
    lens = random_numbers.integers(0, 6, 40)
    ids = random_numbers.integers(2, 9, int(lens.sum())).astype(np.int32)
    whole, sentence = sentence_ngrams(ids, lens, 3, 9, 0)
    held_out = random_numbers.random(40) < 0.3
    ends = np.concatenate(([0], np.cumsum(lens)))
    rows = mapped_rows(
        (
            sentence_ngrams(ids[ends[first] : ends[end]], lens[first:end], 3, 9, 0)
            for first, end in ((0, 1), (1, 17), (17, 40))
        ),
        held_out,
    )
    assert np.array_equal(rows.train, whole[~held_out[sentence]])
    assert np.array_equal(rows.held_out, whole[held_out[sentence]])
    assert len(rows.held_out) > 10


def test_nothing_held_out() -> None:
    part = sentence_ngrams(np.array([3], np.int32), np.array([1]), 2, 9, 0)
    rows = mapped_rows([part], np.zeros(1, np.bool_))
    assert rows.train.tolist() == [[9, 9, 3], [9, 3, 0]]
    assert rows.held_out.shape == (0, 3)


def test_a_part_may_end_with_an_empty_sentence_and_there_may_be_none() -> None:
    first = sentence_ngrams(np.array([3, 4], np.int32), np.array([2, 0]), 1, 9, 0)
    second = sentence_ngrams(np.array([5], np.int32), np.array([1]), 1, 9, 0)
    rows = mapped_rows([first, second], np.array([False, False, True]))
    assert rows.train.tolist() == [[9, 3], [3, 4], [4, 0], [9, 0]]
    assert rows.held_out.tolist() == [[9, 5], [5, 0]]
    assert [len(each) for each in mapped_rows([], np.zeros(0, np.bool_))] == [0, 0]
