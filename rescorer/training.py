"""The training loop of every network: updates, held-out loss, schedule, checkpoints."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from moses_bridge.errors import ConfigError
from moses_bridge.progress import Progress
from rescorer.checkpoint import load_training_state, save_training_state

Batch = TypeVar("Batch")
LOG_NAME = "training.jsonl"


@dataclass(frozen=True)
class LoopConfig:
    """How a network is trained.

    Attributes:
        recipe: "adam" (with warm-up and a learning rate that falls to zero along a cosine), or
            "paper" (Adadelta, rho 0.95, eps 1e-6, summed loss, as in Cho et al. 2014).
        learning_rate: peak of Adam's rate.
        warmup_updates: updates over which the rate rises.
        clip_norm: the gradient's norm is cut to this.
        n_epochs: at most so many passes; 0 for no limit.
        max_minutes: at most so many minutes of training; 0 for no limit.
        evaluations_per_epoch: how often the held-out loss is measured.
        patience: stop after so many evaluations without a better held-out loss.
        checkpoint_minutes: how often the state is saved.
        product_type: type of the output layer's products in training.
    """

    recipe: Literal["adam", "paper"] = "adam"
    learning_rate: float = 2e-3
    warmup_updates: int = 200
    clip_norm: float = 1.0
    n_epochs: int = 0
    max_minutes: float = 10.0
    evaluations_per_epoch: int = 2
    patience: int = 10
    checkpoint_minutes: float = 1.0
    product_type: Literal["float32", "bfloat16"] = "bfloat16"

    def __post_init__(self) -> None:
        if not self.n_epochs and not self.max_minutes:
            raise ConfigError("training needs a limit: set n_epochs or max_minutes")


class Task(Protocol, Generic[Batch]):
    """What is learned: the batches of an epoch and their loss."""

    def batches(self, epoch: int) -> list[Batch]:
        """The batches of an epoch, in their order; the same ones for the same number."""

    def loss(self, batch: Batch) -> tuple[Tensor, float]:
        """Summed loss (natural log) of a batch, and the weight of the words in it."""

    def held_out_loss(self) -> float:
        """Loss on held-out data in nats per word, </s> included."""


@dataclass
class TrainingReport:
    """What came out of a training.

    Attributes:
        held_out_loss: best, nats per word with </s>.
        n_updates: updates made.
        n_epochs: passes over the data, the last one in part.
        minutes: time spent, that of interrupted runs included.
    """

    held_out_loss: float = math.inf
    n_updates: int = 0
    n_epochs: float = 0.0
    minutes: float = 0.0


class Trainer(Generic[Batch]):
    """Trains one network.

    Args:
        network: is changed in place; holds the best weights at the end.
        task: data and loss.
        config: recipe and limits.
        directory: gets the training state and the log.
        settings: all settings, compared when training continues.
    """

    def __init__(
        self,
        network: nn.Module,
        task: Task[Batch],
        config: LoopConfig,
        directory: Path,
        settings: Mapping[str, Any],
    ) -> None:
        self.network = network
        self.task = task
        self.config = config
        self.directory = directory
        self.settings = json.loads(json.dumps(dict(settings)))
        self.optimizer = _optimizer(network, config)
        self.report = TrainingReport()
        self.epoch = self.batch_number = self.n_worse = 0
        self.best_weights = _copy(network)
        self._clock = self._saved = time.monotonic()

    def run(self, resume: bool) -> TrainingReport:
        """Train until a limit is reached; with resume, from where an earlier run was saved.

        Raises:
            ConfigError: the saved state was made with other settings.
            InputError: the saved state is damaged.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        if resume:
            self._resume()
        with Progress("train", self._n_updates_planned(), "updates") as progress:
            progress.update(self.report.n_updates)
            for batch, evaluate in self._remaining_batches():
                loss = self._update(batch)
                progress.update(
                    note=f"loss {loss:.3f}, held-out {self.report.held_out_loss:.3f} nats/word"
                )
                self._tick()
                if evaluate:
                    self._evaluate(loss)
                if self._finished():
                    break
        self._evaluate(None)
        self.network.load_state_dict(self.best_weights)
        return self.report

    def _remaining_batches(self) -> Iterator[tuple[Batch, bool]]:
        while True:
            batches = self.task.batches(self.epoch)
            interval = max(1, len(batches) // self.config.evaluations_per_epoch)
            while self.batch_number < len(batches):
                batch = batches[self.batch_number]
                self.batch_number += 1
                self.report.n_epochs = self.epoch + self.batch_number / len(batches)
                yield batch, self.batch_number % interval == 0
            self.epoch, self.batch_number = self.epoch + 1, 0

    def _update(self, batch: Batch) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        self.optimizer.zero_grad(set_to_none=True)
        loss, n_words = self.task.loss(batch)
        scale = 1.0 if self.config.recipe == "paper" else 1.0 / n_words
        (loss * scale).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip_norm)
        self.optimizer.step()
        self.report.n_updates += 1
        return float(loss.detach()) / n_words

    def _learning_rate(self) -> float:
        if self.config.recipe == "paper":
            return 1.0
        warmup = min(1.0, (self.report.n_updates + 1) / max(1, self.config.warmup_updates))
        decay = 0.5 * (1 + math.cos(math.pi * self._share_done()))
        return self.config.learning_rate * warmup * max(decay, 0.01)

    def _share_done(self) -> float:
        by_time = self.report.minutes / self.config.max_minutes if self.config.max_minutes else 0.0
        by_epochs = self.report.n_epochs / self.config.n_epochs if self.config.n_epochs else 0.0
        return min(1.0, max(by_time, by_epochs))

    def _finished(self) -> bool:
        return self._share_done() >= 1.0 or self.n_worse >= self.config.patience

    def _n_updates_planned(self) -> int | None:
        return len(self.task.batches(0)) * self.config.n_epochs or None

    def _tick(self) -> None:
        now = time.monotonic()
        self.report.minutes += (now - self._clock) / 60
        self._clock = now
        if now - self._saved >= 60 * self.config.checkpoint_minutes:
            self._save()

    @torch.no_grad()
    def _evaluate(self, training_loss: float | None) -> None:
        self.network.eval()
        held_out = self.task.held_out_loss()
        self.network.train()
        self.n_worse += 1
        if held_out < self.report.held_out_loss:
            self.report.held_out_loss = held_out
            self.best_weights = _copy(self.network)
            self.n_worse = 0
        self._log(training_loss, held_out)
        self._tick()

    def _log(self, training_loss: float | None, held_out: float) -> None:
        record = {
            "update": self.report.n_updates,
            "epoch": round(self.report.n_epochs, 4),
            "minutes": round(self.report.minutes, 3),
            "training_loss": training_loss,
            "held_out_loss": held_out,
            "learning_rate": self._learning_rate(),
        }
        with (self.directory / LOG_NAME).open("a") as log:
            log.write(json.dumps(record) + "\n")

    def _save(self) -> None:
        progress = {
            "settings": self.settings,
            "report": asdict(self.report),
            "epoch": self.epoch,
            "batch_number": self.batch_number,
            "n_worse": self.n_worse,
        }
        best = nn.ParameterDict()
        state = nn.ModuleDict({"current": self.network, "best": best})
        for name, tensor in self.best_weights.items():
            best[name.replace(".", "/")] = nn.Parameter(tensor, requires_grad=False)
        save_training_state(self.directory, state, self.optimizer, progress)
        self._saved = time.monotonic()

    def _resume(self) -> None:
        best = nn.ParameterDict()
        for name, tensor in self.best_weights.items():
            best[name.replace(".", "/")] = nn.Parameter(tensor.clone(), requires_grad=False)
        state = nn.ModuleDict({"current": self.network, "best": best})
        progress = load_training_state(self.directory, state, self.optimizer)
        if progress is None:
            return
        if progress["settings"] != self.settings:
            raise ConfigError(
                f"{self.directory}: the training that was interrupted had other settings; "
                "remove the directory to start anew, or train into another one"
            )
        self.best_weights = {name.replace("/", "."): value.data for name, value in best.items()}
        self.report = TrainingReport(**progress["report"])
        self.epoch, self.batch_number = progress["epoch"], progress["batch_number"]
        self.n_worse = progress["n_worse"]


def _optimizer(network: nn.Module, config: LoopConfig) -> torch.optim.Optimizer:
    if config.recipe == "paper":
        return torch.optim.Adadelta(network.parameters(), lr=1.0, rho=0.95, eps=1e-6)
    return torch.optim.Adam(network.parameters(), lr=config.learning_rate, betas=(0.9, 0.99))


def _copy(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
