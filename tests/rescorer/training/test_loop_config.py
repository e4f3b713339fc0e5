from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from moses_bridge.base.errors import ConfigError
from rescorer.training.loop_config import RECIPES, LoopConfig, RecipeName, with_first_weights


def rates(config: LoopConfig, n_updates: int, n_planned: int | None) -> list[float]:
    """The rate of each update; n_planned is None where no end is planned."""
    return [
        RECIPES[config.recipe].rate(config, update, update / n_planned if n_planned else 0.0)
        for update in range(n_updates)
    ]


def test_adams_rate_rises_then_falls_as_a_cosine() -> None:
    config = LoopConfig(learning_rate=0.1, warmup_updates=8, n_epochs=1)
    for update, rate in enumerate(rates(config, 200, 200)):
        rise = min(1.0, max((update + 1) / 8, update / 200 / 0.05))
        fall = max(0.01, 0.5 * (1 + math.cos(math.pi * update / 200)))
        assert rate == pytest.approx(0.1 * rise * fall)


def test_without_a_planned_end_adams_rate_stays() -> None:
    config = LoopConfig(learning_rate=0.1, warmup_updates=4)
    assert rates(config, 8, None) == pytest.approx([0.025, 0.05, 0.075, *[0.1] * 5])
    assert rates(LoopConfig(learning_rate=0.1, warmup_updates=0), 2, None) == [0.1, 0.1]


def test_warm_up_takes_a_twentieth_of_the_training_at_most() -> None:
    config = LoopConfig(learning_rate=1.0, warmup_updates=10**6, n_epochs=1)
    found = rates(config, 100, 100)
    assert found[5] == pytest.approx(0.5 * (1 + math.cos(math.pi * 0.05)))
    assert found[4] < found[5] and found[6] < found[5]


@pytest.mark.parametrize("recipe", ["adam", "paper"])
@pytest.mark.parametrize("gradient", [0.3, -2.0])
def test_optimizers_by_their_equations(recipe: Any, gradient: float) -> None:
    """Kingma & Ba (2015), algorithm 1, betas 0.9 and 0.99; Zeiler (2012), algorithm 1."""
    parameter = nn.Parameter(torch.zeros(1))
    config = LoopConfig(recipe=recipe, learning_rate=0.01)
    optimizer = RECIPES[config.recipe].optimizer([parameter], config)
    w = m = v = squares = steps = 0.0
    for update in range(1, 4):
        parameter.grad = torch.tensor([gradient * update])
        optimizer.step()
        g = gradient * update
        if recipe == "adam":
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            w -= 0.01 * (m / (1 - 0.9**update)) / (math.sqrt(v / (1 - 0.99**update)) + 1e-8)
        else:
            squares = 0.95 * squares + 0.05 * g * g
            step = -math.sqrt(steps + 1e-6) / math.sqrt(squares + 1e-6) * g
            steps = 0.95 * steps + 0.05 * step * step
            w += step
        assert parameter.item() == pytest.approx(w, rel=1e-4)


def test_the_recipe_of_the_paper_sums_in_float32_at_one_rate() -> None:
    paper, adam = RECIPES["paper"], RECIPES["adam"]
    assert [paper.scale(n) for n in (1.0, 50.0)] == [1.0, 1.0]
    assert [adam.scale(n) for n in (1.0, 50.0)] == [1.0, 0.02]
    config = LoopConfig(recipe="paper", product_type="bfloat16", learning_rate=9.0)
    assert rates(config, 3, 3) == [1.0] * 3
    assert config.product_dtype == torch.float32
    assert LoopConfig(product_type="bfloat16").product_dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"warmup_updates": -1}, "warmup_updates is -1"),
        ({"patience": 0}, "patience is 0"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LoopConfig(**settings)


@pytest.mark.parametrize(("recipe", "spread"), [("paper", 0.01), ("adam", None)])
def test_first_weights_have_the_spread_of_the_recipe(
    recipe: RecipeName, spread: float | None
) -> None:
    drawn = list[float | None]()
    network: Any = SimpleNamespace(initialise=drawn.append)
    config = SimpleNamespace(loop=LoopConfig(recipe=recipe), self_normalisation=0.0)
    assert with_first_weights(network, config, 0.01) is network and drawn == [spread]
