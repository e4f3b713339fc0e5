"""Settings of the training loop; recipes: optimiser, learning rate and scale of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import nn

from moses_bridge.base.config import AtLeast, Limited
from rescorer.contract.choices import PrecisionOrFastest
from rescorer.contract.compute import dtype_of, known_precision
from rescorer.contract.trained_model import Network
from rescorer.layers.output_layer import start_normalised

RecipeName = Literal["adam", "paper"]
# Share of the training over which the rate rises at most.
WARMUP_SHARE = 0.05
# The rate does not fall below this share of its peak, so that the last updates still move the weights.
LOWEST_RATE_SHARE = 0.01


@dataclass(frozen=True)
class LoopConfig(Limited):
    """How a network is trained.

    Without n_epochs and max_minutes a training ends when the held-out loss has stopped falling; the
    learning rate is then halved after every third evaluation in a row without a better one. The built-in
    architectures plan as many passes as in the experiments (tuning/experiments): so a training has an end
    from the start, by which the learning rate has fallen, and the loss ends it earlier where it stops falling.

    Attributes:
        recipe: "adam" (with warm-up, and a learning rate that falls to zero along a cosine where an end
            is planned), or "paper" (Adadelta, rho 0.95, eps 1e-6, summed loss, float32, as in Cho et
            al. 2014).
        learning_rate: peak of Adam's rate.
        warmup_updates: updates over which the rate rises, but at most a twentieth of the training.
        clip_norm: the gradient's norm is cut to this.
        n_epochs: maximum number of passes; 0 for no limit.
        max_minutes: maximum minutes of training, not counting those before it was resumed; 0 for no limit.
        evaluations_per_epoch: how often the held-out loss is measured.
        evaluation_minutes: where max_minutes is set, it is measured at least this often.
        patience: number of evaluations in a row without a better held-out loss after which training stops.
        checkpoint_minutes: how often the state is saved.
        accumulation: parts of an update that a process computes one after another, so that a large batch
            needs the memory of a part.
        product_type: type of the layers' products with the recipe "adam"; sums and held-out losses are
            float32. "fastest" is bfloat16 where the processor has instructions for it, else float32: then
            the weights depend on the processor.
    """

    recipe: RecipeName = "adam"
    learning_rate: Annotated[float, AtLeast(0)] = 2e-3
    warmup_updates: Annotated[int, AtLeast(0)] = 200
    clip_norm: Annotated[float, AtLeast(0)] = 1.0
    n_epochs: Annotated[int, AtLeast(0)] = 0
    max_minutes: Annotated[float, AtLeast(0)] = 0.0
    evaluations_per_epoch: Annotated[int, AtLeast(1)] = 2
    evaluation_minutes: Annotated[float, AtLeast(0)] = 1.0
    patience: Annotated[int, AtLeast(1)] = 10
    checkpoint_minutes: Annotated[float, AtLeast(0)] = 1.0
    accumulation: Annotated[int, AtLeast(1)] = 1
    product_type: PrecisionOrFastest = "float32"

    @property
    def product_dtype(self) -> torch.dtype:
        """Type of the layers' products."""
        if RECIPES[self.recipe].is_exact:
            return torch.float32
        return dtype_of(known_precision(self.product_type))

    @property
    def has_planned_end(self) -> bool:
        """Whether passes or minutes are limited."""
        return bool(self.n_epochs or self.max_minutes)

    def end_in_words(self, n_held_out: int) -> str:
        """Say what ends a training, whichever comes first; without held-out items no loss ends it."""
        unit = "minute" if self.max_minutes == 1 else "minutes"
        ends = [f"after {self.max_minutes:g} {unit}"] if self.max_minutes else []
        passes = "pass" if self.n_epochs == 1 else "passes"
        ends += [f"after {self.n_epochs} {passes} over the data"] if self.n_epochs else []
        if n_held_out:
            ends.append(f"when the held-out loss does not fall in {self.patience} evaluations")
        return ", or ".join(ends)


@dataclass(frozen=True)
class Recipe:
    """How weights are changed.

    Attributes:
        optimizer: makes the optimiser of some parameters.
        rate: of the next update, from the settings, the number of updates made, and the share of the training
            done (0 if its end is not planned).
        scale: factor of the summed loss of an update, from its number of words.
        is_exact: whether the output layer's products are float32 whatever the settings say.
    """

    optimizer: Callable[[Iterable[nn.Parameter], LoopConfig], torch.optim.Optimizer]
    rate: Callable[[LoopConfig, int, float], float]
    scale: Callable[[float], float]
    is_exact: bool


def with_first_weights(network: Network, config: Any, of_paper: float) -> Network:
    """Draw the weights of a new network, with the spread of its paper or, for None, scaled by the fan-in.

    The papers' small weights suit Adadelta or SGD over days; scaling by the fan-in suits minutes of Adam.
    """
    drawn: Any = network
    drawn.initialise(of_paper if config.loop.recipe == "paper" else None)
    if config.self_normalisation:
        start_normalised(drawn.output)
    return network


def _adam(parameters: Iterable[nn.Parameter], config: LoopConfig) -> torch.optim.Optimizer:
    # 0.99 instead of 0.999: trainings of minutes have some thousand updates, too few for the longer mean.
    return torch.optim.Adam(parameters, lr=config.learning_rate, betas=(0.9, 0.99), fused=True)


def _warm_cosine(config: LoopConfig, n_updates: int, done: float) -> float:
    by_updates = (n_updates + 1) / max(1, config.warmup_updates)
    warmup = min(1.0, max(by_updates, done / WARMUP_SHARE))
    decay = 0.5 * (1 + math.cos(math.pi * done))
    return config.learning_rate * warmup * max(decay, LOWEST_RATE_SHARE)


def _adadelta(parameters: Iterable[nn.Parameter], config: LoopConfig) -> torch.optim.Optimizer:
    return torch.optim.Adadelta(parameters, lr=1.0, rho=0.95, eps=1e-6)


RECIPES: dict[RecipeName, Recipe] = {
    "adam": Recipe(_adam, _warm_cosine, scale=lambda n_words: 1.0 / n_words, is_exact=False),
    # Cho et al. (2014), section 4.1: Adadelta with rho 0.95 and epsilon 1e-6, and a summed loss.
    "paper": Recipe(_adadelta, lambda *_: 1.0, scale=lambda _: 1.0, is_exact=True),
}
