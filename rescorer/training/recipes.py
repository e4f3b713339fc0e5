"""Recipes: with what optimiser, at what rate and on what scale a network is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import nn

RecipeName = Literal["adam", "paper"]
# Share of the training over which the rate rises at most.
WARMUP_SHARE = 0.05
# The rate does not fall below this share of its peak, so that the last updates still move the weights.
LOWEST_RATE_SHARE = 0.01


class RateSettings(Protocol):
    """Input of recipes: some of the settings of `loop.LoopConfig`."""

    @property
    def learning_rate(self) -> float:
        """Peak of the rate."""

    @property
    def warmup_updates(self) -> int:
        """Updates over which it rises."""


@dataclass(frozen=True)
class Recipe:
    """How weights are changed.

    Attributes:
        optimizer: of some parameters.
        rate: of the next update, from the settings, the number of updates made, and the share of the
            training done (0 where its end is not planned).
        scale: what the summed loss of an update is multiplied with, from its number of words.
        is_exact: whether the output layer's products are float32 whatever the settings say.
    """

    optimizer: Callable[[Iterable[nn.Parameter], RateSettings], torch.optim.Optimizer]
    rate: Callable[[RateSettings, int, float], float]
    scale: Callable[[float], float]
    is_exact: bool


def _adam(parameters: Iterable[nn.Parameter], config: RateSettings) -> torch.optim.Optimizer:
    # 0.99 instead of 0.999: trainings of minutes have some thousand updates, too few for the longer mean.
    return torch.optim.Adam(parameters, lr=config.learning_rate, betas=(0.9, 0.99), fused=True)


def _warm_cosine(config: RateSettings, n_updates: int, done: float) -> float:
    by_updates = (n_updates + 1) / max(1, config.warmup_updates)
    warmup = min(1.0, max(by_updates, done / WARMUP_SHARE))
    decay = 0.5 * (1 + math.cos(math.pi * done))
    return config.learning_rate * warmup * max(decay, LOWEST_RATE_SHARE)


def _adadelta(parameters: Iterable[nn.Parameter], config: RateSettings) -> torch.optim.Optimizer:
    return torch.optim.Adadelta(parameters, lr=1.0, rho=0.95, eps=1e-6)


RECIPES: dict[RecipeName, Recipe] = {
    "adam": Recipe(_adam, _warm_cosine, scale=lambda n_words: 1.0 / n_words, is_exact=False),
    # Cho et al. (2014), section 4.1: Adadelta with rho 0.95 and epsilon 1e-6, and a summed loss.
    "paper": Recipe(_adadelta, lambda *_: 1.0, scale=lambda _: 1.0, is_exact=True),
}
