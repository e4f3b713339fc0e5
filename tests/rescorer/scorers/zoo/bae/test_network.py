"""The bilingual autoencoder against its equations in NumPy float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.training import Data
from rescorer.scorers.zoo.bae import (
    Bae,
    BaeConfig,
    BaeTrainingConfig,
    Bags,
    bae_loss,
    bags_of,
    correlation,
    prepare,
    reconstruction_loss,
)
from rescorer.training.loop_config import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries.phrase_pairs import PhrasePairs
from rescorer.tries.task import TrieTask

N_SOURCE, N_TARGET, WIDTH = 6, 5, 4


@pytest.fixture
def network() -> Bae:
    torch.manual_seed(1)
    network = Bae(BaeConfig(code_width=WIDTH), N_SOURCE, N_TARGET).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return network


PAIRS = EncodedPairs(
    sources=np.array([[2, 3, 2, 0], [5, 0, 0, 0]], np.int32),
    source_lens=np.array([3, 1]),
    targets=np.array([[4, 2, 0], [3, 0, 0], [1, 1, 0], [2, 0, 0]], np.int32),
    target_lens=np.array([2, 1, 2, 0]),
    groups=np.array([0, 0, 1, 1]),
    weights=np.array([1.0, 2.0, 0.5, 3.0]),
)
# The sets of words of each pair; </s> is in none of them.
SETS = [({2, 3}, {2, 4}), ({2, 3}, {3}), ({5}, {1}), ({5}, set())]


def numpy_parameters(network: Bae) -> dict[str, NDArray[np.float64]]:
    return {name: value.detach().numpy() for name, value in network.named_parameters()}


def numpy_loss(network: Bae, source: set[int], target: set[int]) -> float:
    """Six cross-entropies of a pair, word by word."""
    p = numpy_parameters(network)
    sums = [
        sum((p[f"{side}_vectors.weight"][word] for word in words), np.zeros(WIDTH))
        for side, words in (("source", source), ("target", target))
    ]
    total = 0.0
    for pre_activation in (sums[0], sums[1], sums[0] + sums[1]):
        code = np.tanh(p["code_bias"] + pre_activation)
        for side, words in (("source", source), ("target", target)):
            logits = p[f"{side}_output.weight"] @ code + p[f"{side}_output.bias"]
            probs = 1 / (1 + np.exp(-logits))
            for word, prob in enumerate(probs):
                total -= np.log(prob if word in words else 1 - prob)
    return float(total)


def test_the_loss_is_its_equations(network: Bae) -> None:
    rows = np.array([0, 1, 2, 3])
    expected = sum(
        weight * numpy_loss(network, *sets)
        for weight, sets in zip(PAIRS.weights, SETS, strict=True)
    )
    found = bae_loss(network, PAIRS, rows, merged=1, correlation_weight=0.0)
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_merged_pairs_are_one_bag_with_their_mean_weight(network: Bae) -> None:
    """The last bag has what is left."""
    expected = 3.5 / 3 * numpy_loss(network, {2, 3, 5}, {1, 2, 3, 4})
    expected += 3.0 * numpy_loss(network, {5}, set())
    found = bae_loss(network, PAIRS, np.arange(4), merged=3, correlation_weight=0.0)
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_correlation_is_that_of_each_dimension() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    expected = sum(np.corrcoef(one[:, d], other[:, d])[0, 1] for d in range(3))
    found = correlation(torch.from_numpy(one), torch.from_numpy(other))
    assert found.item() == pytest.approx(expected)


def test_correlated_codes_are_rewarded(network: Bae) -> None:
    p = numpy_parameters(network)
    sums = [
        np.array([sum((p[f"{side}_vectors.weight"][w] for w in pair[n]), np.zeros(WIDTH)) for pair in SETS])
        for n, side in enumerate(("source", "target"))
    ]  # fmt: skip
    reward = sum(np.corrcoef(sums[0][:, d], sums[1][:, d])[0, 1] for d in range(WIDTH))
    rows = np.arange(4)
    without, rewarded = (bae_loss(network, PAIRS, rows, 1, weight).item() for weight in (0.0, 0.5))
    assert rewarded == pytest.approx(without - 0.5 * 4 * reward, rel=1e-6)
    alone = [bae_loss(network, PAIRS, rows[:1], 1, weight).item() for weight in (0.0, 0.5)]
    assert alone[0] == alone[1]


def test_a_loss_in_parts_is_the_same(network: Bae, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bae_loss(network, PAIRS, np.arange(4), 1, 0.0)
    monkeypatch.setattr("rescorer.scorers.zoo.bae.BAGS_AT_ONCE", 1)
    assert bae_loss(network, PAIRS, np.arange(4), 1, 0.0).item() == pytest.approx(whole.item())


def test_an_untrained_word_is_unlikely() -> None:
    network = Bae(BaeConfig(code_width=WIDTH), N_SOURCE, 9)
    none = Bags(np.zeros(0, np.int64), np.zeros(0, np.int64), 1)
    loss = reconstruction_loss(
        network.target_output, torch.zeros(1, WIDTH), none, torch.ones(1)
    )  # nine times -log(1 - 1/10)
    assert loss.item() == pytest.approx(-9 * np.log(0.9), rel=1e-5)


def test_bags_have_each_word_once() -> None:
    ids = np.array([[3, 1, 3, 0], [0, 0, 0, 0], [2, 0, 0, 0]], np.int32)
    found = bags_of(ids, np.array([3, 0, 1]))
    assert found.words.tolist() == [1, 3, 2] and found.bags.tolist() == [0, 0, 2]
    assert found.n_bags == 3
    words, starts = found.on(torch.device("cpu"))
    assert words.tolist() == [1, 3, 2] and starts.tolist() == [0, 2, 2]
    merged = bags_of(ids, np.array([3, 0, 1]), merged=2)
    assert merged.bags.tolist() == [0, 0, 1] and merged.n_bags == 2


def test_a_code_of_no_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="code_width"):
        BaeConfig(code_width=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reading": "reversed-sides"}, "reading: a cosine of two codes has no direction"),
        ({"merged_pairs": 0}, "merged_pairs"),
        ({"correlation_weight": -1.0}, "correlation_weight"),
        ({"loop": LoopConfig(accumulation=2)}, "loop.accumulation: .* of a whole batch"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BaeTrainingConfig(**settings)


def test_held_out_pairs_are_neither_merged_nor_rewarded(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(b"s%d u ||| t%d v ||| 1 1 1 1\n" % (n, n % 7) for n in range(60)))
    config = BaeTrainingConfig(
        n_held_out=6, merged_pairs=5, correlation_weight=4.0, loop=LoopConfig(n_epochs=1)
    )
    torch.manual_seed(1)
    prepared = prepare(Data(table), config, 1)
    network, task = cast(Bae, prepared.network), cast(TrieTask, prepared.task)
    source = cast(PhrasePairs, task.source)
    data, rows = source.pool(0), np.setdiff1d(np.arange(60), source.train_rows(0))
    with torch.no_grad():
        learned = float(task.loss(SeededBatch(rows, (0,)))[0])
        found = task.held_out_loss()
        plain = float(bae_loss(network, data, rows, 1, 0.0))
    n_words = float((data.target_lens[rows] + 1).sum())
    assert found == pytest.approx(plain / n_words, rel=1e-6)
    with torch.no_grad():
        assert learned == pytest.approx(float(bae_loss(network, data, rows, 5, 4.0)))
    assert len(rows) == 6 and not np.isclose(learned, plain)


@pytest.mark.parametrize(
    ("settings", "n_parts"),
    [
        ({}, 1),
        ({"correlation_weight": 0.0}, 2),
        ({"correlation_weight": 0.0, "merged_pairs": 3}, 1),
    ],
)
def test_what_looks_at_a_whole_batch_is_not_cut(
    tmp_path: Path, settings: dict[str, Any], n_parts: int
) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(b"s%d u ||| t%d v ||| 1 1 1 1\n" % (n, n % 7) for n in range(60)))
    prepared = prepare(Data(table), BaeTrainingConfig(n_held_out=6, **settings), 1)
    task: Any = prepared.task
    batch = task.batches(0)[0]
    parts = task.parts(batch, 2)
    assert len(parts) == n_parts
    with torch.no_grad():
        total = sum(float(task.loss(part)[0]) for part in parts)
        assert total == pytest.approx(float(task.loss(batch)[0]), rel=1e-5)
