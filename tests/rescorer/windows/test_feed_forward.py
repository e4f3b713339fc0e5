"""."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import Tensor, nn
from torch.nn.functional import embedding

from rescorer.layers.output_layer import start_normalised
from rescorer.windows.feed_forward import (
    FeedForward,
    FirstLayerLookup,
    LayerWidths,
    first_layer,
    first_layer_tables,
)
from tests.rescorer.plain_networks import log_probs


def make_network(second: int = 7) -> FeedForward:
    torch.manual_seed(1)
    return FeedForward(13, 5, LayerWidths(3, 11, second), 6)


@pytest.mark.parametrize("second", [0, 7])
def test_a_looked_up_first_layer_is_the_multiplied_one(second: int) -> None:
    network = make_network(second)
    windows = torch.randint(13, (40, 5))
    with torch.inference_mode():
        expected = network.hidden(windows)
        found = FirstLayerLookup(network).hidden(windows)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert expected.std() > 0


def test_an_even_network_has_a_denominator_near_one() -> None:
    network = make_network()
    start_normalised(network.output)
    with torch.inference_mode():
        logits = network.output(network.hidden(torch.randint(13, (40, 5))))
    assert torch.logsumexp(logits, dim=1).abs().max() < 0.05
    assert network.output.bias.tolist() == pytest.approx([-math.log(6)] * 6)


def test_one_hidden_layer_is_its_equation() -> None:
    network = make_network(second=0)
    assert {name.partition(".")[0] for name in network.state_dict()} == {
        "embedding",
        "first",
        "output",
    }
    windows = np.random.default_rng(1).integers(0, 13, (40, 5))
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    sums = p["embedding.weight"][windows].reshape(40, -1) @ p["first.weight"].T + p["first.bias"]
    logits = np.maximum(0, sums) @ p["output.weight"].T + p["output.bias"]
    words = np.arange(40) % 6
    with torch.inference_mode():
        found = log_probs(network, torch.from_numpy(windows), torch.from_numpy(words))
    np.testing.assert_allclose(found, log_softmax(logits, axis=1)[np.arange(40), words], atol=1e-6)


def test_weights_are_drawn_from_their_ranges() -> None:
    """Cho et al. (2014): U(-0.01, 0.01) at the output; He et al. (2015): U within sqrt(6 / inputs)."""
    torch.manual_seed(2)
    network = FeedForward(300, 5, LayerWidths(8, 64, 32), 300)
    ranges = {"embedding": 0.1, "first": (6 / 40) ** 0.5, "second": (6 / 64) ** 0.5, "output": 0.01}
    for name, limit in ranges.items():
        layer = getattr(network, name)
        ends = [layer.weight.min().item(), layer.weight.max().item()]
        assert ends == pytest.approx([-limit, limit], rel=0.02)
        assert layer.weight.std().item() == pytest.approx(limit / 3**0.5, rel=0.05)
        assert name == "embedding" or not layer.bias.any()


def test_a_lookup_keeps_no_gradients() -> None:
    found = FirstLayerLookup(make_network(second=0)).hidden(torch.zeros(2, 5, dtype=torch.long))
    assert not found.requires_grad


def test_numbers_of_other_words_are_refused() -> None:
    with pytest.raises(IndexError):
        make_network().hidden(torch.full((1, 5), 13))


def test_windows_of_another_width_are_refused() -> None:
    with pytest.raises(RuntimeError, match="windows of 4 words of 3 numbers"):
        make_network().hidden(torch.zeros(2, 4, dtype=torch.long))


@pytest.mark.parametrize("width", [1, 3])
def test_a_sum_of_looked_up_rows_is_the_product_of_the_vectors_side_by_side(width: int) -> None:
    torch.manual_seed(width)
    embedding, layer = nn.Embedding(9, 4).double(), nn.Linear(width * 4, 5, bias=False).double()
    tables = first_layer_tables(embedding.weight, layer.weight)
    assert [table.shape for table in tables] == [(9, 5)] * width
    windows = torch.randint(0, 9, (20, width))
    found = sum(table[windows[:, place]] for place, table in enumerate(tables))
    torch.testing.assert_close(found, layer(embedding(windows).flatten(1)).detach())


def test_by_hand() -> None:
    """Words 2 and -1 at two places with factors 3 and 10."""
    embedding, layer = nn.Embedding(2, 1), nn.Linear(2, 1)
    with torch.no_grad():
        embedding.weight[:] = torch.tensor([[2.0], [-1.0]])
        layer.weight[:] = torch.tensor([[3.0, 10.0]])
    first, second = first_layer_tables(embedding.weight, layer.weight)
    assert (first.tolist(), second.tolist()) == ([[6], [-3]], [[20], [-10]])


def test_a_layer_of_another_width_is_refused() -> None:
    with pytest.raises(RuntimeError):
        first_layer_tables(torch.zeros(9, 4), torch.zeros(5, 10))


def made(n_windows: int = 60, n_places: int = 3) -> tuple[Tensor, nn.Linear, Tensor]:
    """Vectors of 9 words, a layer, and windows, many of which have the same word at a place."""
    torch.manual_seed(n_windows)
    vectors = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    windows = torch.randint(0, 9, (n_windows, n_places))
    return vectors, nn.Linear(n_places * 4, 5).double(), windows


@pytest.mark.parametrize(("n_windows", "n_places"), [(60, 3), (1, 1), (0, 2)])
def test_the_layer_and_its_gradients_are_those_of_the_whole_product(
    n_windows: int, n_places: int
) -> None:
    vectors, layer, windows = made(n_windows, n_places)
    expected = layer(embedding(windows, vectors).flatten(1))
    found = first_layer(vectors, layer, windows)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    leaves = vectors, layer.weight, layer.bias
    factors = torch.randn_like(expected)
    for ours, plain in zip(
        torch.autograd.grad(found, leaves, factors),
        torch.autograd.grad(expected, leaves, factors),
        strict=True,
    ):
        torch.testing.assert_close(ours, plain, atol=1e-12, rtol=0)


def test_the_layer_is_its_equation() -> None:
    vectors, layer, windows = made()
    weight, bias = (parameter.detach().numpy() for parameter in (layer.weight, layer.bias))
    side_by_side = vectors.detach().numpy()[windows.numpy()].reshape(60, 12)
    found = first_layer(vectors, layer, windows).detach()
    np.testing.assert_allclose(found, side_by_side @ weight.T + bias, atol=1e-12)


def test_products_in_bfloat16_are_those_of_float64_within_its_rounding() -> None:
    vectors, layer, windows = made()
    leaves = [vectors, layer.weight, layer.bias]
    expected = layer(embedding(windows, vectors).flatten(1))
    factors = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, leaves, factors)
    vectors, layer = vectors.detach().float().requires_grad_(), layer.float()
    with torch.autocast("cpu", torch.bfloat16):
        found = first_layer(vectors, layer, windows)
    assert found.dtype == torch.bfloat16
    ours = torch.autograd.grad(found.double(), [vectors, layer.weight, layer.bias], factors)
    for narrow, exact in zip((found, *ours), (expected, *gradients), strict=True):
        # Of 8 bits: factors, shares and sums are rounded.
        assert (narrow - exact).norm() <= 2**-7 * exact.norm()
    assert all(gradient.dtype == torch.float32 for gradient in ours)


def test_a_weight_that_changed_before_its_gradient_is_refused() -> None:
    vectors, layer, windows = made()
    found = first_layer(vectors, layer, windows)
    with torch.no_grad():
        layer.weight += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()


@pytest.mark.parametrize("word", [-1, 9])
def test_a_word_without_a_vector_is_refused(word: int) -> None:
    vectors, layer, windows = made()
    windows[7, 1] = word
    with pytest.raises(IndexError, match="a word has no vector: there are 9"):
        first_layer(vectors, layer, windows)


def test_a_first_layer_refuses_windows_of_another_width() -> None:
    vectors, layer, windows = made()
    with pytest.raises(
        RuntimeError, match="windows of 2 words of 4 numbers, but the layer reads 12"
    ):
        first_layer(vectors, layer, windows[:, :2])
