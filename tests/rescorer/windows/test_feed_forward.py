from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from rescorer.windows.feed_forward import FeedForward, FirstLayerLookup, LayerWidths


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
    network.start_normalised()
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
        found = network.log_probs(torch.from_numpy(windows), torch.from_numpy(words))
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
