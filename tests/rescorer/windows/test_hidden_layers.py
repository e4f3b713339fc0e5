"""Hidden layers by look-ups against the network's equations in NumPy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescorer.windows import hidden_layers
from rescorer.windows.feed_forward import FeedForward, LayerWidths
from rescorer.windows.hidden_layers import HiddenLayers, History, bases_of

N_NUMBERS, N_PLACES, N_AROUND = 9, 6, 2
FREQUENCIES = np.array([0.0, 1, 0, 4, 2, 0, 0, 3, 0])


def make_network(n_history: int, n_around: int, second: int) -> FeedForward:
    torch.manual_seed(n_history)
    network = FeedForward(13, n_history + n_around, LayerWidths(4, 11, second), 6)
    torch.nn.init.normal_(network.first.bias)
    return network


def by_equations(network: FeedForward, history: list[int], around: list[int]) -> np.ndarray:
    """The last hidden layer of one window, N_NUMBERS standing for the mean over all numbers."""
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    vectors = p["embedding.weight"]
    mean = FREQUENCIES @ vectors[:N_NUMBERS] / FREQUENCIES.sum()
    of_history = [mean if number == N_NUMBERS else vectors[number] for number in history]
    x = np.concatenate([*of_history, *(vectors[number] for number in around)])
    first = np.maximum(0, p["first.weight"] @ x + p["first.bias"])
    if "second.weight" not in p:
        return np.asarray(first)
    return np.maximum(0, p["second.weight"] @ first + p["second.bias"])


@pytest.mark.parametrize("rows_at_once", [64, 2048])
@pytest.mark.parametrize("second", [0, 7])
@pytest.mark.parametrize(("n_history", "n_around"), [(1, 2), (2, 2), (3, 2), (6, 0), (7, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_are_their_equations(
    n_history: int,
    n_around: int,
    second: int,
    rows_at_once: int,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hidden_layers, "ROWS_AT_ONCE", rows_at_once)
    network = make_network(n_history, n_around, second)
    rng = np.random.default_rng(3)
    around = rng.integers(0, 13, (N_PLACES if n_around else 1, n_around)).astype(np.int32)
    before = rng.integers(0, N_NUMBERS + 1, (150, n_history + 1))
    places = rng.integers(0, len(around), (150, 1 if n_around else 0))
    rows = np.concatenate([places, before], axis=1).astype(np.int32)
    rows[100:] = rows[:50]
    history = History(n_history, N_NUMBERS, FREQUENCIES)
    assert history.open_id == N_NUMBERS
    layers = HiddenLayers(network, history, dtype)
    hidden, which = layers(rows, bases_of(network, around))
    assert len(hidden) == len({tuple(row) for row in rows[:, :-1].tolist()})
    expected = [
        by_equations(network, row[-1 - n_history : -1], around[row[0] if n_around else 0].tolist())
        for row in rows.tolist()
    ]
    error = 1e-5 if dtype == torch.float32 else 0.05
    np.testing.assert_allclose(hidden.float().numpy()[which], expected, atol=error)
    with torch.inference_mode():
        firsts = np.arange(150, dtype=np.int32)
        on_device = layers._on_device(rows, firsts, bases_of(network, around))
    np.testing.assert_allclose(on_device.float().numpy(), expected, atol=error)


def test_no_source_places_have_no_bases() -> None:
    assert bases_of(make_network(2, 2, 7), np.zeros((0, 2), np.int32)).shape == (0, 11)


def test_bases_keep_nothing_for_a_gradient() -> None:
    assert not bases_of(make_network(2, 2, 7), np.zeros((1, 2), np.int32)).requires_grad


def test_words_around_that_are_not_there_are_refused() -> None:
    with pytest.raises(IndexError):
        bases_of(make_network(2, 2, 7), np.full((1, 2), 13, np.int32))
