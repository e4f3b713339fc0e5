"""The training loop shared by all networks: updates, held-out loss, schedule, checkpoints."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Generic

import torch
from torch import Tensor, nn

from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.base.json_files import record_of
from moses_bridge.base.machine import keep_freed_memory
from moses_bridge.base.programs import ENDING_SIGNALS, handled
from moses_bridge.base.progress import Progress, print_note
from rescorer.contract.compute import repeatable_sums
from rescorer.contract.trained_model import TRAINING_STATE
from rescorer.contract.training import Task, TaskBatch
from rescorer.training.log import LogRecord, TrainingLog
from rescorer.training.loop_config import RECIPES, LoopConfig
from rescorer.training.peers import ALONE, Peers
from rescorer.training.state import OF_TRAINING, load_training_state, save_training_state

# Why a training ended in which a signal came.
INTERRUPTED = "interrupted"
# Evaluations without a better held-out loss after which the rate is halved, where no end is planned.
EVALUATIONS_TO_HALVE = 3
# What may change when a training is continued.
LIMITS = (
    "n_epochs",
    "max_minutes",
    "patience",
    "evaluation_minutes",
    "checkpoint_minutes",
    "accumulation",
)


@dataclass
class TrainingReport:
    """The result of a training.

    Attributes:
        held_out_loss: best, nats per word with </s>; None without held-out data.
        n_updates: number of updates.
        n_epochs: passes over the data, the last one in part.
        minutes: time spent, including interrupted runs.
        ended: why it ended.
        log_z_mean: mean of log Z over the held-out words, natural log; None if not measured.
        log_z_sd: its standard deviation.
    """

    held_out_loss: float | None = None
    n_updates: int = 0
    n_epochs: float = 0.0
    minutes: float = 0.0
    ended: str = ""
    log_z_mean: float | None = None
    log_z_sd: float | None = None


@dataclass
class _Progress:
    """The progress of a training, as saved in its state."""

    settings: Any
    report: TrainingReport
    epoch: int
    batch_number: int
    n_worse: int
    n_halvings: int
    evaluated_update: int


class Trainer(Generic[TaskBatch]):
    """Trains one network in place, which holds the best weights at the end.

    The directory gets the training state and the log. The settings are other ones that must be the same when
    training continues; the unit is that of the loss, for the progress line. One of the signals ends the
    training after the current update; see `noted_signal`.
    """

    def __init__(
        self,
        network: nn.Module,
        task: Task[TaskBatch],
        config: LoopConfig,
        directory: Path,
        settings: Mapping[str, Any],
        peers: Peers = ALONE,
        unit: str = "nats/word",
        signals: Sequence[int] = (),
    ) -> None:
        self.network = network
        self.task = task
        self.config = config
        self.directory = directory
        self.peers = peers
        self.unit = unit
        self.signals = signals
        # Minutes or passes may be raised when a training continues, other settings may not change.
        loop = {name: value for name, value in asdict(config).items() if name not in LIMITS}
        fixed = json.loads(json.dumps({**settings, "loop": loop}))
        self.at = _Progress(fixed, TrainingReport(), 0, 0, 0, 0, -1)
        self.recipe = RECIPES[config.recipe]
        self.optimizer = self.recipe.optimizer(network.parameters(), config)
        self.best_weights = _copy(network)
        self._minutes_before = 0.0
        self._clock = self._saved = self._evaluated = time.monotonic()

    @property
    def report(self) -> TrainingReport:
        """The result so far."""
        return self.at.report

    def run(self, resume: bool) -> TrainingReport:
        """Train until a limit is reached or a signal comes; with resume, from where an earlier run was saved.

        A resumed training goes on as if nothing had happened. `max_minutes` are those of this call.

        Raises:
            ConfigError: the saved state was made with other settings, nothing ends the training, or a batch
                has fewer items than parts.
            InputError: the saved state is damaged.
            UserError: a loss is no longer a number.
        """
        if not self.config.has_planned_end and self.task.n_held_out == 0:
            raise ConfigError(
                "no data are held out, so nothing tells when to stop: "
                "set loop.n_epochs or loop.max_minutes"
            )
        self._check_parts()
        keep_freed_memory()
        self.directory.mkdir(parents=True, exist_ok=True)
        resumed = resume and self.peers.together(self._resume, first_alone=False)
        self.peers.agree(self.report.n_updates, "a saved state")
        self.peers.share(self.network.state_dict().values())
        if not resumed and self.peers.is_first:
            (self.directory / TRAINING_STATE).unlink(missing_ok=True)
        self._minutes_before = self.report.minutes
        device = next(self.network.parameters()).device
        with ExitStack() as stack:
            log = None
            if self.peers.is_first:
                at = self.at.evaluated_update, self.report.minutes
                log = stack.enter_context(closing(TrainingLog(self.directory, *at)))
            stack.enter_context(repeatable_sums(device))
            self._train(log)
        self.network.load_state_dict(self.best_weights)
        return self.report

    def _check_parts(self) -> None:
        n_parts = self.peers.size * self.config.accumulation
        if n_parts > self.task.batch_size:
            raise ConfigError(
                f"a batch of {self.task.batch_size} cannot be cut into {n_parts} parts "
                f"({self.peers.size} processes, loop.accumulation {self.config.accumulation}): start fewer "
                "processes, or make batches larger"
            )

    def _train(self, log: TrainingLog | None) -> None:
        """Make the remaining updates, evaluate the last one, and save the state."""
        loss = None
        self._clock = self._saved = self._evaluated = self._now()
        share = self._share_done() if self.config.has_planned_end else None
        print_note(f"training ends {self.config.end_in_words(self.task.n_held_out)}")
        with Progress("train", None, "updates", self.report.n_updates, share) as progress:
            for batch, evaluate in self._remaining_batches():
                loss = self._update(batch)
                self._tick()
                share = None if share is None else self._share_done()
                progress.update(note=self._note(loss), share=share)
                if evaluate or self._evaluation_is_due():
                    self._evaluate(loss, log)
                if self._clock - self._saved >= 60 * self.config.checkpoint_minutes:
                    self._save()
        is_interrupted = self._end() == INTERRUPTED
        if is_interrupted:
            print_note("interrupted: the best weights will be saved; a second signal ends at once")
            self._save()  # before an evaluation that the resumed training does not make
        if self.at.evaluated_update < self.report.n_updates:
            self._evaluate(loss, log)
        self.report.ended = INTERRUPTED if is_interrupted else self._end() or ""
        if not is_interrupted:
            self._save()

    def _remaining_batches(self) -> Iterator[tuple[TaskBatch, bool]]:
        while not self._end():
            batches = self.task.batches(self.at.epoch)
            interval = max(1, len(batches) // self.config.evaluations_per_epoch)
            while self.at.batch_number < len(batches) and not self._end():
                batch = batches[self.at.batch_number]
                self.at.batch_number += 1
                self.report.n_epochs = self.at.epoch + self.at.batch_number / len(batches)
                yield batch, self.at.batch_number % interval == 0
            if self.at.batch_number >= len(batches):
                self.at.epoch, self.at.batch_number = self.at.epoch + 1, 0

    def _update(self, batch: TaskBatch) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        self.optimizer.zero_grad(set_to_none=True)
        n_words = self.task.n_words(batch)
        scale, own_loss = self.recipe.scale(n_words), 0.0
        parts = self.task.parts(batch, self.peers.size * self.config.accumulation)
        first = self.peers.rank * self.config.accumulation
        for part in parts[first : first + self.config.accumulation]:  # there may be none
            loss, _ = self.task.loss(part)
            (loss * scale).backward()  # type: ignore[no-untyped-call]
            own_loss += float(loss.detach())
        loss_per_word = self.peers.sum(own_loss) / n_words
        self._check_finite(loss_per_word, "loss")
        self.peers.sum_gradients(self.network.parameters())
        nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip_norm)
        self.optimizer.step()
        self.report.n_updates += 1
        return loss_per_word

    def _check_finite(self, loss: float, name: str) -> None:
        if not math.isfinite(loss):
            n_updates = self.report.n_updates
            advice = "train with a lower learning_rate"
            raise UserError(f"the {name} is {loss} after {n_updates} updates; {advice}")

    def _learning_rate(self) -> float:
        rate = self.recipe.rate(self.config, self.report.n_updates, self._share_done())
        return rate * 0.5**self.at.n_halvings

    def _share_done(self) -> float:
        planned = self._minutes_before + self.config.max_minutes
        by_time = self.report.minutes / planned if self.config.max_minutes else 0.0
        by_epochs = self.report.n_epochs / self.config.n_epochs if self.config.n_epochs else 0.0
        return min(1.0, max(by_time, by_epochs))

    def _end(self) -> str | None:
        if self.at.n_worse >= self.config.patience:
            return f"the held-out loss did not fall in {self.at.n_worse} evaluations"
        if self._share_done() >= 1.0:
            return "the planned passes or minutes are over"
        return INTERRUPTED if self.signals else None

    def _note(self, loss: float) -> str:
        held_out = self.report.held_out_loss
        return f"loss {loss:.3f} {self.unit}" + (
            "" if held_out is None else f", held-out {held_out:.3f}"
        )

    def _tick(self) -> None:
        now = self._now()
        self.report.minutes += (now - self._clock) / 60
        self._clock = now

    def _now(self) -> float:
        """Seconds, the same in all processes, so that they agree on what depends on time."""
        return self.peers.first(time.monotonic())

    def _evaluation_is_due(self) -> bool:
        waited = self._clock - self._evaluated
        return self.config.max_minutes > 0 and waited >= 60 * self.config.evaluation_minutes

    @torch.no_grad()
    def _evaluate(self, training_loss: float | None, log: TrainingLog | None) -> None:
        """Measure and log the held-out loss, and keep the weights if they are the best."""
        self.network.eval()
        held_out = self.task.held_out_loss()
        self.network.train()
        if held_out is not None:
            held_out = self.peers.first(held_out)
            self._check_finite(held_out, "held-out loss")
        best = self.report.held_out_loss
        if held_out is None or best is None or held_out < best:
            self.report.held_out_loss = held_out
            self.best_weights = _copy(self.network)
            self.at.n_worse = 0
        else:
            self.at.n_worse += 1
            is_third = self.at.n_worse % EVALUATIONS_TO_HALVE == 0
            self.at.n_halvings += is_third and not self.config.has_planned_end
        self.at.evaluated_update = self.report.n_updates
        record = self._record(training_loss, held_out)
        self._tick()
        self._evaluated = self._clock
        if log is not None:
            log.append(record)

    def _record(self, training_loss: float | None, held_out: float | None) -> LogRecord:
        return LogRecord(
            update=self.report.n_updates,
            epoch=round(self.report.n_epochs, 4),
            minutes=round(self.report.minutes, 3),
            training_loss=training_loss,
            held_out_loss=held_out,
            learning_rate=self._learning_rate(),
        )

    def _save(self) -> None:
        if not self.peers.is_first:
            return
        weights = {"current": self.network.state_dict(), "best": self.best_weights}
        save_training_state(self.directory, weights, self.optimizer, asdict(self.at))
        self._saved = time.monotonic()

    def _resume(self) -> bool:
        """Restore the saved state; False if there is none."""
        saved = load_training_state(
            self.directory, ("current", "best"), self.network, self.optimizer
        )
        if saved is None:
            return False
        weights, stored = saved
        progress = record_of(_Progress, stored, self.directory / TRAINING_STATE, OF_TRAINING)
        if progress.settings != self.at.settings:
            raise ConfigError(
                f"{self.directory}: the training there had other settings or data "
                f"({', '.join(_differing(progress.settings, self.at.settings))}): continue it with its own, "
                "train into another directory, or begin anew with --overwrite"
            )
        self.network.load_state_dict(weights["current"])
        self.best_weights = weights["best"]
        self.at = progress
        return True


def _differing(one: Any, other: Any, name: str = "") -> list[str]:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return [] if one == other else [name]
    keys = {key: f"{name}.{key}" if name else key for key in sorted(one | other)}
    return [found for key in keys for found in _differing(one.get(key), other.get(key), keys[key])]


def _copy(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


@contextlib.contextmanager
def noted_signal(is_alone: bool = True) -> Iterator[list[int]]:
    """A list for the first signal in a `with` block, which acts at the end of the block; a second acts at once.

    Of several processes that train together (not `is_alone`), each ends at once.
    """
    noted = list[int]()
    with contextlib.ExitStack() as handlers:

        def note(number: int, frame: FrameType | None) -> None:
            noted.append(number)
            handlers.close()

        if is_alone:
            handlers.enter_context(handled(ENDING_SIGNALS, note))
        yield noted
    for came in noted:
        signal.raise_signal(came)
