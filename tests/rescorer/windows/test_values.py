"""Values by look-ups against NumPy float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from rescorer.layers.output_layer import ExactOutputLayer
from rescorer.windows.feed_forward import FeedForward, LayerWidths
from rescorer.windows.hidden_layers import HiddenLayers, History, bases_of
from rescorer.windows.values import NormalisedValues, RawValues, Values

NOTHING = np.zeros((1, 0), np.int32)


@pytest.fixture
def network() -> FeedForward:
    torch.manual_seed(5)
    result = FeedForward(9, 2, LayerWidths(4, 11, 7), 6)
    torch.nn.init.normal_(result.output.weight)
    torch.nn.init.normal_(result.output.bias)
    return result


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.concatenate([rng.integers(0, 4, (80, 2)), rng.integers(0, 6, (80, 1))], 1).astype(
        np.int32
    )


def layers(network: FeedForward, dtype: torch.dtype) -> HiddenLayers:
    return HiddenLayers(network, History(2, 9, np.ones(9)), dtype)


def logits_of(network: FeedForward, rows: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        hidden = network.double().hidden(torch.from_numpy(rows[:, :-1].astype(np.int64)))
        return np.asarray(network.output(hidden).numpy())


def raw(network: FeedForward, dtype: torch.dtype) -> RawValues:
    return RawValues(layers(network, dtype), network.output, log_z=0.25)


def normalised(network: FeedForward, dtype: torch.dtype) -> NormalisedValues:
    layer = ExactOutputLayer(network.output, dtype)
    return NormalisedValues(layers(network, torch.float32), layer)


@pytest.mark.parametrize(
    ("way", "expected_of"),
    [
        (raw, lambda logits: logits - 0.25),
        (normalised, lambda logits: log_softmax(logits, axis=1)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values(
    way: Callable[[FeedForward, torch.dtype], Values],
    expected_of: Callable[[np.ndarray], np.ndarray],
    dtype: torch.dtype,
    network: FeedForward,
    rows: np.ndarray,
) -> None:
    found = way(network, dtype)(rows, bases_of(network, NOTHING))
    expected = expected_of(logits_of(network, rows))[np.arange(len(rows)), rows[:, -1]]
    np.testing.assert_allclose(found, expected, atol=2e-6 if dtype == torch.float32 else 0.08)


def test_without_a_mean_of_log_z_raw_values_are_the_logits(
    network: FeedForward, rows: np.ndarray
) -> None:
    found = RawValues(layers(network, torch.float32), network.output)(
        rows, bases_of(network, NOTHING)
    )
    expected = logits_of(network, rows)[np.arange(len(rows)), rows[:, -1]]
    np.testing.assert_allclose(found, expected, atol=2e-6)
