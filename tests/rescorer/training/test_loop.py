from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from moses_bridge.base.errors import ConfigError, UserError
from rescorer.contract.trained_model import LOG_NAME, TRAINING_STATE
from rescorer.training import loop
from rescorer.training.loop import Trainer
from rescorer.training.loop_config import LoopConfig


class OneNumber(nn.Module):
    """f(w) = slope w, for a Trainer to minimise."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(()))


class Slope:
    """A task whose gradient is known."""

    def __init__(
        self, network: OneNumber, slope: float, held_out: list[float] | None = None
    ) -> None:
        self.network, self.slope = network, slope
        self.held_out = iter(held_out or [])
        self.n_held_out = len(held_out or [])

    def batches(self, epoch: int) -> list[int]:
        return [0, 1]

    batch_size = 2

    def parts(self, batch: int, n_parts: int) -> list[int]:
        return [batch]

    def n_words(self, batch: int) -> float:
        return 2.0

    def loss(self, batch: int) -> tuple[Tensor, float]:
        return self.slope * self.network.w, 2.0

    def held_out_loss(self) -> float | None:
        return next(self.held_out, None)


def train_one_number(
    folder: Path, slope: float, held_out: list[float] | None = None, **settings: Any
) -> tuple[OneNumber, Trainer[int]]:
    network = OneNumber()
    config = LoopConfig(**settings)
    trainer = Trainer(network, Slope(network, slope, held_out), config, folder, {})
    trainer.run(resume=False)
    return network, trainer


def read_log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LOG_NAME).read_text().splitlines()]


@pytest.mark.parametrize("slope", [0.3, -0.3, 50.0])
def test_the_recipe_of_the_paper_is_adadelta_of_the_summed_and_cut_gradient(
    tmp_path: Path, slope: float
) -> None:
    """Zeiler (2012), algorithm 1, rho = 0.95, eps = 1e-6, two updates."""
    g = math.copysign(min(abs(slope), 1.0), slope)
    w = squares = steps = 0.0
    for _ in range(2):
        squares = 0.95 * squares + 0.05 * g * g
        step = -math.sqrt(steps + 1e-6) / math.sqrt(squares + 1e-6) * g
        steps = 0.95 * steps + 0.05 * step * step
        w += step
    network, _ = train_one_number(tmp_path, slope, recipe="paper", n_epochs=1)
    assert network.w.item() == pytest.approx(w, rel=1e-4)


def test_rate_rises_then_falls_as_a_cosine(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"learning_rate": 0.1, "warmup_updates": 8, "n_epochs": 100}
    _, trainer = train_one_number(tmp_path, 1.0, **settings)
    log = read_log(tmp_path)
    for line in log:
        done = line["update"] / 200
        rise = min(1.0, max((line["update"] + 1) / 8, done / 0.05))
        fall = max(0.01, 0.5 * (1 + math.cos(math.pi * done)))
        assert line["learning_rate"] == pytest.approx(0.1 * rise * fall)
    assert trainer.report.n_updates == log[-1]["update"] == 200


def test_the_best_weights_stay_and_patience_ends(tmp_path: Path) -> None:
    """With slope 1 Adam's weight falls at each update; the third evaluation is the best."""
    held_out = [3.0, 2.0, 1.0, 1.5, 1.4, 1.3, 0.1]
    settings = {"n_epochs": 50, "patience": 3, "evaluations_per_epoch": 2, "learning_rate": 0.1}
    network, trainer = train_one_number(tmp_path, 1.0, held_out, warmup_updates=1, **settings)
    assert trainer.report.n_updates == 6
    assert trainer.report.held_out_loss == 1.0
    assert network.w.item() == pytest.approx(-0.3, abs=0.01)


def test_a_loss_that_is_not_a_number_ends_the_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="lower learning_rate"):
        train_one_number(tmp_path, math.nan, n_epochs=1)


def new_trainer(
    folder: Path, held_out: list[float], slope: float = 1.0, **settings: Any
) -> tuple[OneNumber, Trainer[int]]:
    network = OneNumber()
    config = LoopConfig(**settings)
    return network, Trainer(network, Slope(network, slope, held_out), config, folder, {})


@pytest.mark.parametrize("held_out", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("n_before", [0, 2])
def test_a_held_out_loss_that_is_not_a_number_ends_the_training(
    tmp_path: Path, held_out: float, n_before: int
) -> None:
    """The weights of the best evaluation stay the best."""
    losses = [3.0, 2.0][:n_before]
    network, trainer = new_trainer(tmp_path, [*losses, held_out], n_epochs=9, learning_rate=0.1)
    with pytest.raises(
        UserError, match=f"{n_before + 1} updates; train with a lower learning_rate"
    ):
        trainer.run(resume=False)
    assert trainer.report.held_out_loss == (2.0 if n_before else None)
    assert [line["held_out_loss"] for line in read_log(tmp_path)] == losses
    assert trainer.best_weights["w"] > network.w or not n_before
    assert trainer.report.n_updates == n_before + 1


def test_without_held_out_data_and_limits_nothing_ends_it(tmp_path: Path) -> None:
    _, trainer = new_trainer(tmp_path / "m", [])
    with pytest.raises(ConfigError, match="no data are held out, so nothing tells when to stop"):
        trainer.run(resume=False)
    assert not (tmp_path / "m").exists()


def test_by_default_there_is_no_limit_of_time() -> None:
    config = LoopConfig()
    assert (config.n_epochs, config.max_minutes, config.has_planned_end) == (0, 0.0, False)
    assert LoopConfig(n_epochs=1).has_planned_end and LoopConfig(max_minutes=1).has_planned_end


def test_the_rate_is_halved_after_each_third_worse_evaluation_in_a_row(tmp_path: Path) -> None:
    """A better loss begins the count anew; what was halved stays halved."""
    held_out = [5.0, 6, 6, 4, 5, 5, 5, 5, 5, 5, 3, 4, 4, 4, 4, 4, 4, 4]
    halved = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4]
    _, trainer = new_trainer(
        tmp_path, held_out, learning_rate=0.1, warmup_updates=0, patience=7, evaluations_per_epoch=2
    )
    report = trainer.run(resume=False)
    rates = [line["learning_rate"] for line in read_log(tmp_path)]
    assert rates == pytest.approx([0.1 * 0.5**n for n in halved])
    assert report.ended == "the held-out loss did not fall in 7 evaluations"
    assert (report.held_out_loss, report.n_updates) == (3.0, 18)


def test_with_a_planned_end_the_rate_is_not_halved(tmp_path: Path) -> None:
    held_out = [1.0, *[2.0] * 40]
    _, trainer = new_trainer(
        tmp_path, held_out, learning_rate=0.1, warmup_updates=0, patience=9, n_epochs=10**6
    )
    report = trainer.run(resume=False)
    assert read_log(tmp_path)[-1]["learning_rate"] == pytest.approx(0.1, rel=1e-3)
    assert report.ended == "the held-out loss did not fall in 9 evaluations"


def test_halvings_and_worse_evaluations_are_not_forgotten(tmp_path: Path) -> None:
    """Resumed with more patience, the training goes on at the rate where it stopped."""
    settings: dict[str, Any] = {"learning_rate": 0.1, "warmup_updates": 0}
    _, first = new_trainer(tmp_path, [1.0, *[2.0] * 40], patience=4, **settings)
    first.run(resume=False)
    _, second = new_trainer(tmp_path, [2.0] * 40, patience=8, **settings)
    report = second.run(resume=True)
    rates = [line["learning_rate"] for line in read_log(tmp_path)]
    assert rates == pytest.approx([0.1 * 0.5**n for n in (0, 0, 0, 1, 1, 1, 2, 2, 2)])
    assert report.n_updates == 9


class Clock:
    """Each look at it takes so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now = seconds, 0.0

    def monotonic(self) -> float:
        self.now += self.seconds
        return self.now


def test_minutes_end_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.time, "monotonic", Clock(6.0).monotonic)
    _, trainer = new_trainer(tmp_path, [1.0] * 99, max_minutes=2.0, patience=1000)
    report = trainer.run(resume=False)
    assert report.ended == "the planned passes or minutes are over"
    assert 2.0 <= report.minutes < 2.3


@pytest.mark.parametrize(("minutes", "step"), [(0.09, 1), (9.0, 2)])
def test_a_training_of_minutes_is_evaluated_at_least_so_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, step: int
) -> None:
    """An update takes 6 seconds (0.1 minutes), a pass has two of them."""
    monkeypatch.setattr(loop.time, "monotonic", Clock(6.0).monotonic)
    settings = {"evaluations_per_epoch": 1, "evaluation_minutes": minutes, "patience": 1000}
    new_trainer(tmp_path, [1.0] * 99, max_minutes=2.0, **settings)[1].run(resume=False)
    updates = [line["update"] for line in read_log(tmp_path)]
    assert updates[:4] == [step * n for n in (1, 2, 3, 4)]


def test_minutes_are_those_of_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.time, "monotonic", Clock(6.0).monotonic)
    for n_calls in (1, 2):
        trainer = new_trainer(tmp_path, [1.0] * 99, max_minutes=2.0, patience=1000)[1]
        report = trainer.run(resume=n_calls > 1)
        assert 2.0 * n_calls <= report.minutes < 2.0 * n_calls + 0.5


@pytest.mark.parametrize("n_before", [1, 2, 3, 7])
def test_a_signal_ends_it_and_changes_nothing_of_what_follows(
    tmp_path: Path, n_before: int
) -> None:
    """The losses fall, so that the last evaluation has the best weights: also that of the interruption."""
    settings: dict[str, Any] = {"n_epochs": 5, "evaluations_per_epoch": 1, "learning_rate": 0.1}
    losses = [1 / n for n in range(1, 99)]
    whole, uninterrupted = new_trainer(tmp_path / "whole", losses, **settings)
    end = uninterrupted.run(resume=False).ended
    network, trainer = new_trainer(tmp_path / "part", losses, **settings)
    signals = trainer.signals = list[int]()
    loss = trainer.task.loss

    def with_signal(batch: int) -> tuple[Tensor, float]:
        if trainer.report.n_updates == n_before - 1:
            signals.append(15)
        return loss(batch)

    trainer.task.loss = with_signal  # type: ignore[method-assign]
    report = trainer.run(resume=False)
    assert (report.ended, report.n_updates) == ("interrupted", n_before)
    assert [line["update"] for line in read_log(tmp_path / "part")][-1] == n_before
    assert network.w < 0
    lower = [1 / n for n in range(100, 199)]
    continued, again = new_trainer(tmp_path / "part", lower, **settings)
    assert again.run(resume=True).ended == end == "the planned passes or minutes are over"
    assert continued.w.item() == whole.w.item()
    updates = [[line["update"] for line in read_log(tmp_path / name)] for name in ("part", "whole")]
    assert updates[0] == updates[1]


def test_an_interrupted_training_is_not_ended_by_its_last_evaluation(tmp_path: Path) -> None:
    """The training goes on from before that evaluation, which is worse and would use up the patience."""
    trainer = new_trainer(tmp_path, [1.0, 2.0], evaluations_per_epoch=1, patience=1)[1]
    signals = trainer.signals = list[int]()
    loss = trainer.task.loss

    def with_signal(batch: int) -> tuple[Tensor, float]:
        if trainer.report.n_updates == 2:
            signals.append(15)
        return loss(batch)

    trainer.task.loss = with_signal  # type: ignore[method-assign]
    report = trainer.run(resume=False)
    assert (report.ended, report.n_updates, report.held_out_loss) == ("interrupted", 3, 1.0)


def test_a_signal_before_the_first_update_leaves_no_update(tmp_path: Path) -> None:
    trainer = new_trainer(tmp_path, [1.0], n_epochs=1)[1]
    trainer.signals = [2]
    assert trainer.run(resume=False).n_updates == 0


def test_a_state_of_other_settings_is_refused(tmp_path: Path) -> None:
    new_trainer(tmp_path, [], n_epochs=1)[1].run(resume=False)
    with pytest.raises(ConfigError, match=r"had other settings or data \(loop\.clip_norm\)"):
        new_trainer(tmp_path, [], n_epochs=1, clip_norm=2.0)[1].run(resume=True)
    assert new_trainer(tmp_path, [], n_epochs=2)[1].run(resume=True).n_updates == 4


def test_without_resume_a_saved_state_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a later --resume would continue the older training."""
    new_trainer(tmp_path, [], n_epochs=1)[1].run(resume=False)
    _, trainer = new_trainer(tmp_path, [], slope=math.nan, n_epochs=1)
    with pytest.raises(UserError):
        trainer.run(resume=False)
    assert not (tmp_path / TRAINING_STATE).exists()


@pytest.mark.parametrize(
    ("limits", "n_held_out", "said"),
    [
        ({}, 5, "when the held-out loss does not fall in 10 evaluations"),
        ({"n_epochs": 1}, 0, "after 1 pass over the data"),
        ({"n_epochs": 3}, 0, "after 3 passes over the data"),
        ({"max_minutes": 1.5, "patience": 4}, 5, "after 1.5 minutes, or when the held-out loss "),
    ],
)
def test_what_ends_a_training_in_words(limits: dict[str, Any], n_held_out: int, said: str) -> None:
    assert LoopConfig(**limits).end_in_words(n_held_out).startswith(said)
