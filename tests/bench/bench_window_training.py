"""Training of an NNJM: examples a second, and seconds to a held-out loss, next to plain PyTorch.

Both learn the same windows with the same network (the default sizes), Adam, learning rate and warm-up, one
after the other. Ours takes the batches and the sampled softmax of `rescorer train`; the peer takes the full
softmax of torch.nn.functional.cross_entropy in float32 and a quarter of the windows an update. The loss to
reach is the peer's lowest in PEER_SECONDS; held-out losses are exact and outside the clock.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from bench_training import LIMIT_SECONDS, PEER_SECONDS, SEED, Curve, product_types, trained
from numpy.typing import NDArray
from results import Result, write_results
from torch import Tensor
from torch.nn.functional import cross_entropy

from rescorer.contract.choices import Precision
from rescorer.contract.data import Data
from rescorer.scorers.nnjm.network import Nnjm
from rescorer.scorers.nnjm.task import NnjmTrainingConfig, prepare
from rescorer.training.loop import LoopConfig
from rescorer.training.seeded_batch import SeededBatch
from rescorer.windows.feed_forward import above_first
from rescorer.windows.task import WindowTask

LEARNING_RATE = 2e-3
PEER_BATCH = 256
HELD_OUT_SENTENCES = 500


@dataclass(frozen=True)
class Examples:
    """The windows of an update: a `SeededBatch` that has a length.

    Attributes:
        rows: their numbers, *Shape:* (n,).
        seed: of the sample.
        part: of parts, the first one.
        others: of other parts, none.
    """

    rows: NDArray[np.int64]
    seed: tuple[int, ...]
    part: int
    others: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


class OurTask:
    """The batches and losses of `rescorer train`.

    Args:
        task: has them.
    """

    def __init__(self, task: WindowTask) -> None:
        self.task = task
        self.held_out_loss = task.held_out_loss

    def batches(self, epoch: int) -> list[Examples]:
        """The windows of each update."""
        return [Examples(*batch) for batch in self.task.batches(epoch)]

    def loss(self, batch: Examples) -> tuple[Tensor, float]:
        """Summed loss and number of windows."""
        return self.task.loss(batch)


class PlainTask(OurTask):
    """The same windows with a full softmax."""

    def batches(self, epoch: int) -> list[Examples]:
        """The windows of each update."""
        order = np.random.default_rng((SEED, epoch)).permutation(len(self.task.train_rows))
        parts = np.array_split(order, len(order) // PEER_BATCH)
        return [Examples(*SeededBatch(rows, ())) for rows in parts]

    def loss(self, batch: Examples) -> tuple[Tensor, float]:
        """Summed loss and number of windows."""
        rows = torch.from_numpy(self.task.train_rows[batch.rows]).long()
        network = self.task.network
        first = network.first(network.embedding(rows[:, :-1]).flatten(1))
        logits = network.output(above_first(first, network.second))
        return cross_entropy(logits, rows[:, -1], reduction="sum"), float(len(rows))


def prepared(data: Data, product_type: Precision) -> tuple[Nnjm, WindowTask]:
    """A network with the weights that every training begins with, and its windows."""
    loop = LoopConfig(product_type=product_type)
    config = NnjmTrainingConfig(n_held_out=HELD_OUT_SENTENCES, loop=loop)
    torch.manual_seed(SEED)
    ready = prepare(data, config, SEED)
    return ready.network, ready.task


def curve(task: type[OurTask], data: Data, product_type: Precision, goal: float) -> Curve:
    """How a training goes, to the goal or until time is up."""
    network, windows = prepared(data, product_type)
    seconds = PEER_SECONDS if goal == -np.inf else LIMIT_SECONDS
    return trained(network, task(windows), LEARNING_RATE, seconds, goal)


def measure(data: Data) -> Iterator[Result]:
    """Speed, then time to the goal, of each type of our products against the peer."""
    peer, plain = "plain PyTorch, full softmax", curve(PlainTask, data, "float32", -np.inf)
    goal = min(loss for _, loss in plain.points)
    for product_type in product_types():
        ours = curve(OurTask, data, product_type, goal)
        speeds = ours.pairs_per_second, plain.pairs_per_second
        yield Result("train an NNJM", product_type, peer, *speeds, "examples/s")
        times = ours.seconds_to(goal), plain.seconds_to(goal)
        if times[0] is None or times[1] is None:
            print(f"{goal:.3f} nats/word not reached in {LIMIT_SECONDS:.0f} s: {product_type}")
        else:
            title = f"train an NNJM to {goal:.3f} nats/word"
            yield Result(title, product_type, peer, *times, "s")


def main(target: Path, source: Path, links: Path, out: Path) -> None:
    """Measure on linked parallel text."""
    write_results(list(measure(Data(target, source, links))), out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]))
