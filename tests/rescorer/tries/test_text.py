"""Losses over trees of sentences against a bigram softmax in NumPy float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax

from moses_bridge.base.errors import ConfigError
from rescorer.layers.predicted import WordSampler
from rescorer.training.loop_config import LoopConfig
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries import sentences as module
from rescorer.tries import task as task_module
from rescorer.tries.sentences import EncodedText, Sentences, text_task
from rescorer.tries.settings import TextTrainingConfig
from rescorer.tries.task import TrieTask, pairs_loss, word_shares

N_WORDS = 60


class Nothing(NamedTuple):
    rows: torch.Tensor


class Vectors(NamedTuple):
    vectors: torch.Tensor


class Bigrams(torch.nn.Module):
    """The factors are the vector of the word before; nothing is carried on."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.vectors = torch.randn(N_WORDS + 1, width, generator=generator)
        self.output = torch.nn.Linear(width, N_WORDS)
        with torch.no_grad():
            self.output.weight[:] = 0.4 * torch.randn(N_WORDS, width, generator=generator)
            self.output.bias[:] = 0.4 * torch.randn(N_WORDS, generator=generator)

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Nothing:
        return Nothing(torch.zeros(len(ids), 1))

    def start(self, source: Nothing) -> Nothing:
        return source

    def inputs(self, words: torch.Tensor, source: Nothing, rows: torch.Tensor) -> Vectors:
        return Vectors(self.vectors[words])

    def carry(self, state: Nothing) -> Nothing:
        return state

    def step(self, carried: Nothing, inputs: Vectors, source: Nothing) -> Nothing:
        return carried

    def factors(self, state: Nothing, inputs: Vectors, source: Nothing) -> torch.Tensor:
        return inputs.vectors

    def loss(self, words: list[int]) -> float:
        """-log p of a sentence and its end."""
        weight, bias = (p.detach().double().numpy() for p in self.output.parameters())
        total = 0.0
        for before, word in zip([-1, *words], [*words, 0], strict=True):
            logits = weight @ self.vectors[before].double().numpy() + bias
            total -= log_softmax(logits)[word]
        return total


def make_text(n: int = 200, max_len: int = 9) -> EncodedText:
    """Short words of few kinds first, so that beginnings are shared."""
    rng = np.random.default_rng(3)
    lens = rng.integers(0, max_len + 1, n)
    ids = np.minimum(rng.zipf(1.5, int(lens.sum())), N_WORDS - 1).astype(np.int32)
    return EncodedText(ids, lens)


def sentences(text: EncodedText) -> list[list[int]]:
    return [part.tolist() for part in np.split(text.ids, np.cumsum(text.lens)[:-1])]


def make_task(**settings: Any) -> tuple[Bigrams, TrieTask, EncodedText]:
    text, network = make_text(), Bigrams()
    held_out = np.arange(len(text.lens)) % 10 == 3
    config = TextTrainingConfig(**{"n_sampled": 0, "batch_words": 100, **settings})
    return network, text_task(network, text, held_out, config, seed=1), text


def source_of(task: TrieTask) -> Sentences:
    assert isinstance(task.source, Sentences)
    return task.source


def test_sentences_are_padded_behind_their_ends() -> None:
    text = EncodedText(np.array([4, 5, 6, 7], np.int32), np.array([2, 0, 1, 1]))
    assert text.padded(np.array([3, 0])).tolist() == [[7, 0, 0], [4, 5, 0]]
    assert text.padded(np.array([1])).shape == (1, 1)


@pytest.mark.parametrize("n_sampled", [0, N_WORDS])
def test_the_loss_of_a_batch_is_that_of_its_sentences(n_sampled: int) -> None:
    network, task, text = make_task(n_sampled=n_sampled)
    rows, all_sentences = np.array([5, 0, 7, 7, 101]), sentences(text)
    loss, n_words = task.loss(SeededBatch(rows, (1,)))
    assert n_words == sum(len(all_sentences[row]) + 1 for row in rows)
    expected = sum(network.loss(all_sentences[row]) for row in rows)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_the_held_out_loss_is_nats_per_word(monkeypatch: pytest.MonkeyPatch) -> None:
    network, task, text = make_task(n_sampled=7, dropout=0.5)
    held_out = [words for number, words in enumerate(sentences(text)) if number % 10 == 3]
    expected = sum(map(network.loss, held_out)) / sum(len(words) + 1 for words in held_out)
    assert task.n_held_out == 20
    with torch.no_grad():
        assert task.held_out_loss() == pytest.approx(expected, rel=1e-5)
        monkeypatch.setattr(module, "HELD_OUT_TEXT_WORDS", 13)
        assert task.held_out_loss() == pytest.approx(expected, rel=1e-5)


def test_nothing_held_out_has_no_loss() -> None:
    text = make_text()
    task = text_task(Bigrams(), text, np.zeros(len(text.lens), bool), TextTrainingConfig(), seed=1)
    assert (task.n_held_out, task.held_out_loss()) == (0, None)


def test_where_all_is_held_out_there_is_no_batch() -> None:
    text = make_text(20)
    task = text_task(Bigrams(), text, np.ones(20, bool), TextTrainingConfig(), seed=1)
    assert (task.n_held_out, task.batches(0)) == (20, [])


def test_an_epoch_has_every_sentence_once_and_batches_are_of_like_length() -> None:
    _, task, text = make_task()
    first, again, second = task.batches(0), task.batches(0), task.batches(1)
    rows = np.concatenate([batch.rows for batch in first])
    assert sorted(rows) == [row for row in range(200) if row % 10 != 3]
    assert rows.tolist() == np.concatenate([batch.rows for batch in again]).tolist()
    assert rows.tolist() != np.concatenate([batch.rows for batch in second]).tolist()
    assert len({batch.seed for batch in [*first, *second]}) == len(first) + len(second)
    assert all(np.ptp(text.lens[batch.rows]) <= 3 for batch in first)
    assert all((text.lens[batch.rows] + 1).sum() <= 110 for batch in first)


def test_long_sentences_are_not_learned_from() -> None:
    _, task, text = make_task(max_sentence_words=4)
    rows = np.concatenate([batch.rows for batch in task.batches(0)])
    assert text.lens[rows].max() == 4 and task.n_held_out == 20


def test_the_sampled_loss_is_the_full_one_on_average() -> None:
    """Over random batches, but for the correction of the predicted words themselves."""
    network, task, text = make_task(n_sampled=30)
    source = source_of(task)
    log_inclusion = WordSampler(
        word_shares(source, source.train_rows, N_WORDS), 100, 30
    ).log_inclusion
    all_sentences, rng = sentences(text), np.random.default_rng(4)
    found = expected = 0.0
    for seed in range(200):
        rows = rng.permutation(source.train_rows)[:18]
        with torch.no_grad():
            found += task.loss(SeededBatch(rows, (seed,)))[0].item()
            expected += pairs_loss(
                network, source.located(SeededBatch(rows, ()))[0], np.arange(18), torch.float32
            ).item()
        words = [word for row in rows for word in [*all_sentences[row], 0]]
        expected += log_inclusion[words].sum()
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("at_once", [7, 10_000])
def test_a_sampled_loss_is_over_the_words_that_take_part(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A logit is lowered by the log of 1 - (1 - share)^words (1 - sampled / all); shares count </s>."""
    monkeypatch.setattr(task_module, "SENTENCES_AT_ONCE", at_once)
    network, task, text = make_task(n_sampled=11, batch_words=6, max_sentence_words=7)
    all_sentences, rows = sentences(text), [5, 0, 7, 101]
    learned = [
        word
        for number, words in enumerate(all_sentences)
        if number % 10 != 3 and len(words) <= 7
        for word in [*words, 0]
    ]
    shares = np.bincount(learned, minlength=N_WORDS) / len(learned)
    lowered = -np.log(1 - (1 - shares) ** 6 * (1 - 11 / N_WORDS))
    drawn = np.random.default_rng((1,)).choice(N_WORDS, 11, replace=False)
    own = [word for row in rows for word in [*all_sentences[row], 0]]
    lowered[~np.isin(np.arange(N_WORDS), [*own, *drawn])] = -np.inf
    with torch.no_grad():
        found = task.loss(SeededBatch(np.array(rows), (1,)))[0].item()
        network.output.bias += torch.from_numpy(lowered)
    expected = sum(network.loss(all_sentences[row]) for row in rows)
    assert np.isinf(lowered).any() and found == pytest.approx(expected, rel=1e-5)


def test_sentences_are_ordered_by_length_within_fifty_batches_of_text() -> None:
    """Of 180 sentences in random order, those that end within 150 words, within 300 words and so on."""
    _, task, text = make_task(batch_words=3)
    order = np.random.default_rng((1, 0)).permutation(source_of(task).train_rows).tolist()
    pools: dict[int, list[int]] = {}
    n_words = 0
    for row in order:
        n_words += int(text.lens[row]) + 1
        pools.setdefault(n_words // 150, []).append(row)
    batches: dict[int, list[int]] = {}
    n_words = 0
    for pool in pools.values():
        for row in sorted(pool, key=lambda row: int(text.lens[row])):
            n_words += int(text.lens[row]) + 1
            batches.setdefault((n_words - 1) // 3, []).append(row)
    found = {tuple(batch.rows.tolist()) for batch in task.batches(0)}
    assert len(pools) > 5 and found == {tuple(rows) for rows in batches.values()}
    assert task.batch_size == 3


def test_parts_of_a_batch_sum_up_to_it() -> None:
    _, task, _ = make_task(n_sampled=7)
    batch = SeededBatch(np.array([5, 0, 7, 101]), (1,))
    parts = task.parts(batch, 3)
    with torch.no_grad():
        losses = [task.loss(part)[0].item() for part in (batch, *parts)]
    assert len(parts) == 3 and sum(losses[1:]) == pytest.approx(losses[0], rel=1e-5)
    assert sum(map(task.n_words, parts)) == task.n_words(batch)


@pytest.mark.parametrize("settings", [{"n_sampled": 20}, {"dropout": 0.5}])
def test_a_batch_alone_says_what_is_drawn_in_it(settings: dict[str, Any]) -> None:
    _, task, _ = make_task(**settings)
    rows = np.arange(10)
    with torch.no_grad():
        one, again, other = (
            task.loss(SeededBatch(rows, seed))[0].item() for seed in ((1, 2), (1, 2), (3,))
        )
    assert one == again != other


def test_products_in_bfloat16_are_near() -> None:
    losses = []
    for product_type in ("float32", "bfloat16"):
        _, task, _ = make_task(loop=LoopConfig(product_type=product_type))  # type: ignore[arg-type]
        losses.append(task.loss(SeededBatch(np.arange(50), (1,)))[0].item())
    assert losses[0] != losses[1] and losses[0] == pytest.approx(losses[1], rel=0.01)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shortlist": 0}, "shortlist is 0"),
        ({"max_sentence_words": 0}, "max_sentence_words is 0"),
        ({"batch_words": 0}, "batch_words is 0"),
        ({"n_sampled": -1}, "n_sampled is -1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TextTrainingConfig(**settings)
