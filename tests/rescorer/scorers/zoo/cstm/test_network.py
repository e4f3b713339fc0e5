"""The CSTM against its equations in NumPy float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.zoo.cstm import (
    Cstm,
    CstmConfig,
    CstmTrainingConfig,
    cstm_loss,
    new_network,
    predicted_at,
    source_windows,
)
from rescorer.training.loop_config import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from tests.rescorer.plain_networks import log_probs

SIZES = CstmConfig(phrase_words=3, embedding_width=5, first_width=11, second_width=7)
N_SOURCE, N_TARGET = 6, 5


def small_network(sizes: CstmConfig = SIZES) -> Cstm:
    torch.manual_seed(1)
    network = Cstm(sizes, N_SOURCE, N_TARGET)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return network


def numpy_log_prob(network: Cstm, source: list[int], target: list[int]) -> float:
    """log p(target | source) from the equations: tanh layers, a softmax a place, </s> is the word 0."""
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    n_places = network.config.phrase_words
    places = source + [N_SOURCE] * (n_places - len(source))
    x = np.concatenate([p["embedding.weight"][word] for word in places])
    hidden = np.tanh(p["first.weight"] @ x + p["first.bias"])
    if "second.weight" in p:
        hidden = np.tanh(p["second.weight"] @ hidden + p["second.bias"])
    total = 0.0
    for place, word in enumerate([*target, 0][:n_places]):
        logits = p[f"outputs.{place}.weight"] @ hidden + p[f"outputs.{place}.bias"]
        total += logits[word] - np.log(np.exp(logits).sum())
    return float(total)


def asked(
    sources: list[list[int]], targets: list[list[int]]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    windows = [source + [N_SOURCE] * (3 - len(source)) for source in sources]
    width = max(map(len, targets)) + 1
    ids = [target + [0] * (width - len(target)) for target in targets]
    return torch.tensor(windows), torch.tensor(ids), torch.tensor([len(t) for t in targets])


@pytest.mark.parametrize("second_width", [7, 0])
@torch.inference_mode()
def test_the_network_is_its_equations(second_width: int) -> None:
    network = small_network(
        CstmConfig(phrase_words=3, embedding_width=5, first_width=11, second_width=second_width)
    )
    sources = [[2], [3, 2], [5, 1, 2], [], [4, 4, 4]]
    targets = [[2, 3, 4], [], [1], [3, 3], [4, 2, 1]]
    expected = [numpy_log_prob(network, *pair) for pair in zip(sources, targets, strict=True)]
    found = log_probs(network, *asked(sources, targets))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@torch.inference_mode()
def test_all_targets_together_have_probability_one() -> None:
    """Those of no word to those of as many words as there are places; none of them contains </s>."""
    targets = [
        list(target)
        for n_words in range(4)
        for target in itertools.product(range(1, N_TARGET), repeat=n_words)
    ]
    found = log_probs(small_network(), *asked([[3, 2]] * len(targets), targets))
    assert len(targets) == 1 + 4 + 16 + 64
    assert found.double().exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_windows_have_empty_places_behind_the_words() -> None:
    ids: NDArray[np.int32] = np.array([[4, 2, 0], [3, 0, 0], [0, 0, 0]], np.int32)
    found = source_windows(ids, np.array([2, 1, 0]), 4, 9)
    assert found.tolist() == [[4, 2, 9, 9], [3, 9, 9, 9], [9, 9, 9, 9]]
    full = source_windows(np.array([[4, 2, 0]], np.int32), np.array([2]), 2, 9)
    assert full.tolist() == [[4, 2]]


def test_a_phrase_that_is_longer_than_the_window_has_none() -> None:
    with pytest.raises(ValueError, match="3 words in 2 places"):
        source_windows(np.zeros((1, 4), np.int32), np.array([3]), 2, 9)


def test_initial_weights_are_drawn_as_told() -> None:
    network = small_network()
    network.initialise(0.1)
    weights = network.embedding.weight, *(layer.weight for layer in network.output_layers)
    assert all(0.05 < weight.abs().max() <= 0.1 for weight in weights)
    network.initialise(None)
    assert network.embedding.weight.abs().max() > 0.1
    assert all((layer.bias == 0).all() for layer in network.output_layers)


@pytest.mark.parametrize("key", ["phrase_words", "embedding_width", "first_width"])
def test_sizes_of_nothing_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}"):
        CstmConfig(**{key: 0})


N_SOURCE_WORDS, N_TARGET_WORDS = 11, 6
SMALL = CstmConfig(phrase_words=4, embedding_width=5, first_width=9, second_width=7)


def make_data(n_sources: int = 9, n_pairs: int = 70) -> EncodedPairs:
    rng = np.random.default_rng(8)

    def phrases(n: int, n_words: int) -> tuple[Any, Any]:
        lens = rng.integers(0, 5, n)
        ids = rng.integers(1, n_words, (n, 5)).astype(np.int32)
        ids[np.arange(5) >= lens[:, None]] = 0
        return ids, lens

    groups = np.sort(rng.integers(0, n_sources, n_pairs))
    sources, targets = phrases(n_sources, N_SOURCE_WORDS), phrases(n_pairs, N_TARGET_WORDS)
    return EncodedPairs(*sources, *targets, groups, rng.uniform(0.5, 3.0, n_pairs))


def make_network() -> Cstm:
    torch.manual_seed(3)
    network = Cstm(SMALL, N_SOURCE_WORDS, N_TARGET_WORDS).double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network


def pair_by_pair(network: Cstm, data: EncodedPairs, rows: Any) -> Tensor:
    groups = data.groups[rows]
    windows = source_windows(data.sources[groups], data.source_lens[groups], 4, N_SOURCE_WORDS)
    found = log_probs(
        network,
        torch.from_numpy(windows).long(),
        torch.from_numpy(data.targets[rows]).long(),
        torch.from_numpy(data.target_lens[rows]),
    )
    return -(torch.from_numpy(data.weights[rows]) * found).sum()


@pytest.mark.parametrize("rows", [np.arange(70), np.array([3, 50, 7]), np.array([12])])
def test_loss_and_gradients_are_those_of_the_pairs(rows: Any) -> None:
    network, data = make_network(), make_data()
    expected = pair_by_pair(network, data, rows)
    gradients = torch.autograd.grad(expected, list(network.parameters()), allow_unused=True)
    found = cstm_loss(network, data, rows, torch.float64)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    others = torch.autograd.grad(found, list(network.parameters()), allow_unused=True)
    for one, other in zip(gradients, others, strict=True):
        if one is None or other is None:
            assert (other if one is None else one) is None
        else:
            torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-9)


def test_a_source_whose_targets_share_words_is_computed_once() -> None:
    groups, words = np.array([2, 2, 2, 5, 0]), np.array([7, 3, 7, 7, 0], np.int32)
    here, predicted = predicted_at(groups, words, np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert here.tolist() == [0, 2, 5]
    assert predicted.rows.tolist() == [0, 1, 1, 2]
    assert predicted.words.tolist() == [0, 3, 7, 7]
    assert predicted.weights.tolist() == [16.0, 2.0, 5.0, 8.0]


def test_pairs_that_have_no_place_are_not_asked_for() -> None:
    with pytest.raises(
        ConfigError, match="max_phrase_words is 7, but the network has places for 5"
    ):
        from_mapping(CstmTrainingConfig, {"model": {"phrase_words": 5}}, "the test")
    shorter = CstmTrainingConfig(max_phrase_words=5, model=CstmConfig(phrase_words=5))
    assert shorter.model.phrase_words == 5


def test_denominators_are_not_drawn_to_one() -> None:
    with pytest.raises(ConfigError, match="unknown key 'self_normalisation'"):
        from_mapping(CstmTrainingConfig, {"self_normalisation": 0.1}, "the test")


def test_the_recipe_of_the_paper_has_its_initial_weights() -> None:
    shortlists = Shortlists(Vocabulary([b"a"] * 200), Vocabulary([b"x"] * 200))
    paper = CstmTrainingConfig(loop=LoopConfig(recipe="paper"))
    largest = [
        new_network(config, shortlists).embedding.weight.abs().max().item()
        for config in (paper, CstmTrainingConfig())
    ]
    assert largest[0] <= 0.1 < largest[1]
