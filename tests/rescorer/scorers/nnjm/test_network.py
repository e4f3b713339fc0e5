"""The network against its equations in NumPy float64."""

from __future__ import annotations

import numpy as np
import torch

from rescorer.scorers.nnjm.network import Nnjm, NnjmConfig
from rescorer.windows.feed_forward import FirstLayerLookup


def test_the_network_is_its_equations() -> None:
    torch.manual_seed(1)
    network = Nnjm(NnjmConfig(2, 3, 5, 11, 7), 13, 6)
    torch.nn.init.normal_(network.output.weight)
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    rng = np.random.default_rng(2)
    windows, words = rng.integers(0, 13, (40, 5)), rng.integers(0, 6, 40)
    expected = []
    for window, word in zip(windows, words, strict=True):
        x = np.concatenate([p["embedding.weight"][i] for i in window])
        first = np.maximum(0, p["first.weight"] @ x + p["first.bias"])
        second = np.maximum(0, p["second.weight"] @ first + p["second.bias"])
        logits = p["output.weight"] @ second + p["output.bias"]
        expected.append(logits[word] - np.log(np.exp(logits).sum()))
    with torch.inference_mode():
        tensor = torch.from_numpy(windows)
        found = network.log_probs(tensor, torch.from_numpy(words))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        looked_up = FirstLayerLookup(network).hidden(tensor)
        np.testing.assert_allclose(looked_up, network.hidden(tensor), atol=1e-6)
